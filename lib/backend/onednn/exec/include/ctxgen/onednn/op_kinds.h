#pragma once

#include <string_view>

/// The op kinds of programs with source CtxgenDnnlExecutionProvider: the contract between
/// onednn/compile (which writes them) and onednn/exec (which plans and runs them). They are part of
/// the context binary: a changed meaning needs a new kind name.
///
/// Inputs are listed in order, "?" marks optional ones. All tensors are f32 unless said otherwise;
/// kinds that only move data (concat to split below, expand) and max pools also take f16, u8, s8, s32
/// and bool (pools: u8, s8), the same type everywhere and then without post_ops.
/// `pads` are the 2k numbers of ONNX (begins, then ends). `auto_pad` is ONNX's word; with
/// SAME_UPPER/SAME_LOWER/VALID `pads` is absent and computed when dims are known.
/// Every kind takes post_ops unless said otherwise.
///
/// A list parameter `p` of numbers may be given as `p_code` (dim_code.h), which computes it from the
/// dims of the op's inputs when a plan is made. The last `sized` inputs of such an op are there for
/// their dims only.
namespace ctxgen::onednn::kind {

/// src [N, C, D1..Dk], weights [M, C/group, K1..Kk] (always a weight), bias? [M]; k in 1..3.
/// params: strides, dilations, pads | auto_pad, group.
inline constexpr std::string_view kConv = "conv";
/// a, b, bias? [N]. NumPy matmul broadcasting of leading dims; ranks >= 2 (compile unsqueezes).
/// params: trans_a, trans_b (0/1: swap the last two dims of the stored operand).
/// A constant b is a weight with its stored dims (trans_b says how to read it).
inline constexpr std::string_view kMatmul = "matmul";
/// src [N, C, D1..Dk]. params: mode ("max", "avg_include", "avg_exclude"), kernel, strides,
/// dilations, pads | auto_pad, ceil_mode.
inline constexpr std::string_view kPool = "pool";
/// src [N, C, D1..Dk] -> [N, C, 1..1]. params: mode ("max", "avg").
inline constexpr std::string_view kGlobalPool = "global_pool";
/// src. params: alg (an eltwise word below), alpha, beta.
inline constexpr std::string_view kEltwise = "eltwise";
/// a, b with NumPy broadcasting (either side). params: alg (a binary word below).
inline constexpr std::string_view kBinary = "binary";
/// src [N, C, ...], scale [C], shift [C] (weights): y = src * scale[c] + shift[c].
inline constexpr std::string_view kScaleShift = "scale_shift";
/// src. params: axis (may be negative), log (0/1). Softmax over that one axis.
inline constexpr std::string_view kSoftmax = "softmax";
/// src, scale? , shift? (weights of the dims from `axis` on). params: axis, epsilon.
inline constexpr std::string_view kLayerNorm = "layer_norm";
/// src [N, C, ...]. params: size, alpha, beta, bias (ONNX LRN).
inline constexpr std::string_view kLrn = "lrn";
/// inputs... params: axis.
inline constexpr std::string_view kConcat = "concat";
/// src. params: perm.  No post_ops.
inline constexpr std::string_view kTranspose = "transpose";
/// src. params: shape (ONNX: 0 copies unless allowzero, one -1). No post_ops; a view where it can.
inline constexpr std::string_view kReshape = "reshape";
/// src. params: axis -> [prod(dims[:axis]), prod(dims[axis:])]. No post_ops.
inline constexpr std::string_view kFlatten = "flatten";
/// src. params: axes (may be negative; empty: all dims of size 1). No post_ops.
inline constexpr std::string_view kSqueeze = "squeeze";
/// src. params: axes (in the output's rank). No post_ops.
inline constexpr std::string_view kUnsqueeze = "unsqueeze";
/// src: the value itself (Identity, Dropout at inference). No post_ops.
inline constexpr std::string_view kIdentity = "identity";
/// src. params: starts, ends, axes, steps (constants, ONNX meaning). No post_ops.
inline constexpr std::string_view kSlice = "slice";
/// src -> several outputs. params: axis, sizes (empty: equal parts). No post_ops.
inline constexpr std::string_view kSplit = "split";

/// src of type f32, f16, u8, s8 or s32 -> f32, f16, u8 or s8 of the same dims: element-wise work on
/// real numbers. An integer src stands for (src - in_zero) * in_scale; then come the post_ops, whose
/// operands may be of these types too, an integer one standing for (operand - beta) * alpha of its
/// PostOp; a u8 or s8 result is saturate(round_half_even(y / out_scale) + out_zero).
/// params: in_scale, in_zero (where src is an integer), out_scale, out_zero (where the result is).
/// Words without an own loop (sigmoid, ...) only where src is u8 or s8 and no step has an operand.
inline constexpr std::string_view kPoint = "point";
/// src u8 or s8 [N, C, D1..Dk], weights s8 [M, C/group, K1..Kk] (always a weight), bias? [M],
/// scales? [1] or [M] (f32 weight). y = post_ops(scales * sum((src - in_zero) * weights) + bias);
/// padding counts as in_zero. The result is f32, or u8 or s8 by out_scale and out_zero as in
/// "point", or the s32 sum (without bias, scales and post_ops).
/// params: those of "conv", in_zero, out_scale, out_zero. Operands of post_ops are f32.
inline constexpr std::string_view kQConv = "qconv";
/// a u8 or s8, b s8 [K, N] (always a weight), bias? [N], scales? [1] or [N]: as "qconv".
/// params: trans_b, in_zero, out_scale, out_zero.
inline constexpr std::string_view kQMatmul = "qmatmul";
/// src [N, C, D1..Dk], weights [M, C/group, K1..Kk] (always a weight, in the form of a convolution's:
/// output channels first), bias? [M]; the transposed convolution.
/// params: strides, dilations, pads, output_padding, group.
inline constexpr std::string_view kDeconv = "deconv";
/// src. params: pads (2 x rank, ONNX order, may be negative), mode ("constant", "reflect", "edge",
/// "wrap"), value. No post_ops.
inline constexpr std::string_view kPad = "pad";
/// src -> [dims before axis, index_dims, dims after it]. params: axis, indices (may be negative),
/// index_dims. No post_ops.
inline constexpr std::string_view kGather = "gather";
/// src. params: repeats (one per dim). No post_ops.
inline constexpr std::string_view kTile = "tile";
/// src. params: shape (ONNX: broadcasts both ways). No post_ops.
inline constexpr std::string_view kExpand = "expand";
/// condition (bool), a, b with NumPy broadcasting of all three: a where the condition is not 0, else
/// b. No post_ops.
inline constexpr std::string_view kSelect = "select";
/// src. params: mode ("nearest", "linear"), coordinates and nearest (ONNX's words), scales (one per
/// dim) and optionally sizes (one per dim, -1: by its scale).
inline constexpr std::string_view kResize = "resize";
/// src [N, C, H, W]. params: form ("depth_to_space_dcr", "depth_to_space_crd", "space_to_depth"),
/// size. No post_ops.
inline constexpr std::string_view kBlocks = "blocks";
/// src. params: mode ("sum", "mean", "max", "min", "prod", "l1", "l2", "sum_square", "log_sum",
/// "log_sum_exp"), axes (may be negative; not empty), keepdims (0/1).
inline constexpr std::string_view kReduce = "reduce";
/// src, scale of the dims from `axis` on: src / sqrt(mean(src^2) + epsilon) * scale.
/// params: axis, epsilon.
inline constexpr std::string_view kRmsNorm = "rms_norm";
/// src [N, C, ...], scale? [C], shift? [C]. params: groups, epsilon. Normalises each group of
/// channels of each image.
inline constexpr std::string_view kGroupNorm = "group_norm";
/// x [T, N, I], weights [D, I, G, O] and recurrent weights [D, O, G, O] (oneDNN's order of gates),
/// bias [D, G (one more for "lbr_gru"), O], initial state? [D, N, O], initial cell? (lstm)
///   -> y [T, N, D*O], state [D, N, O], cell [D, N, O] (lstm only).
/// params: cell ("lstm", "gru", "lbr_gru", "tanh", "relu"), direction ("forward", "reverse",
/// "bidirectional"). No post_ops.
inline constexpr std::string_view kRnn = "rnn";
/// table [V, ...] (a weight, f32, f16, u8 or s8), indices (int32 or int64, -V to V - 1): the slices of the
/// table that the indices name, [indices..., ...] of the table's type. A run fails with
/// INVALID_ARGUMENT if an index is outside. No post_ops.
inline constexpr std::string_view kLookup = "lookup";
/// src [..., K], matrix u8 [bytes] (a weight: [K, N] packed as ctxgen/kernels/low_bit.h says), bias? [N]:
/// src times the matrix (q - zero) * scale, plus bias. params: k, n, bits (2, 4, 8), block (16, 32, 64,
/// 128, 256: elements of a column with a scale of their own), zeros ("middle": 2^(bits - 1), "integer",
/// "float"), compute ("float"; "int8": each block of a row of src is rounded to integers of 8 bits, and
/// zeros are not "float"), weight_error? (of a matrix that the compile rounded: kind_params.h). No
/// post_ops.
inline constexpr std::string_view kLowBitMatmul = "low_bit_matmul";
/// src f32 [N, C, D1..Dk], k 1 or 2, matrix u8 [bytes] (a weight, packed as that of "low_bit_matmul": the
/// convolution's weights as [K1..Kk C, M]), bias? [M]: the convolution. params: those of "low_bit_matmul"
/// (k = C K1..Kk, n = M; compute "float"), kernel, strides, dilations, pads | auto_pad.
inline constexpr std::string_view kLowBitConv = "low_bit_conv";
/// matrix u8 [bytes] (a weight, packed as that of "low_bit_matmul"), indices (int32 or int64, -N to N - 1):
/// the columns of the matrix that the indices name, [indices..., K]. A run fails with INVALID_ARGUMENT if an
/// index is outside. params: k, n, bits, block, zeros. No post_ops.
inline constexpr std::string_view kLowBitLookup = "low_bit_lookup";
/// A "conv" whose weights are computed: a value, packed in each run.
inline constexpr std::string_view kComputedConv = "computed_conv";
/// q, k?, v?, past_key?, past_value?, lengths?, bias?, cos?, sin?, distances? -> result, or result, present_key,
/// present_value, or these and logits: softmax(cap(scale q k^T) + bias + distances) v of each head (ctxgen/kernels/attention.h). q, k and v are
/// [B, heads, rows, size] or [B, rows, heads * size]; without k and v, q is [B, rows, (heads + 2 kv_heads) *
/// size], which holds them; the result has q's form. past_key, past_value and the present ones are
/// [B, kv_heads, keys, size]; with present outputs, new keys and values follow the past ones, and the keys are
/// `total` or as many as the past has, where `total` is given, else the sum of both.
/// lengths: with `lengths` "last" int32 [B], each the place of a sequence's last key (queries == total: not
/// read), new keys end there; with "count" int64 [B], how many keys a sequence has. A run fails with
/// INVALID_ARGUMENT if a last key or a position is outside. bias f32 or bool (false hides), its dims
/// broadcast to [B, heads, rows, keys]; with short_bias its last dim may be less: keys beyond are hidden; with
/// long_bias it may be more, and what is beyond the keys is not read. finite_causal: the logit of a key after
/// its query is the lowest float, to which a bias (f32) is added, instead of -infinity: only a query from which the bias
/// hides all other keys sees the difference. mask_value: the bias is a mask [B, keys] or [B or 1, 1, 1, keys], int32 (0
/// and less hide), bool or f32 (0 hides), and this number is added to what it hides; with finite_causal to keys after the
/// query, too, once where both hide; with long_bias a mask of one key for several is an error.
/// cos, sin [positions, half]: the first 2 half elements of each head of q and k are turned by their position,
/// in pairs as `rotary` says ("halves", "neighbours"); only with present outputs. distances [heads, count]: what is added
/// to the logit of a key that is 0, 1, 2... places before its query; the first for keys after it, the last for farther ones.
/// params: heads, kv_heads, scale (0: 1 / sqrt(size)), softcap (0: none), causal (0/1), window (keys before its own that a query
/// sees; 0: all), smooth (0/1: one more logit of 0), lengths, rotary, total (at most one number),
/// short_bias, long_bias, finite_causal (0/1), same_rows (1: there are as many new keys as queries, or it is an error; may
/// be absent), bottom_right (1, with causal, without lengths and presents: the last query is at the place of the last key, and
/// fewer keys than queries are an error; may be absent), sinks (per head one more logit, within +-1e30; absent where there are
/// none), cap_sum (1: the weights are softmax(cap(scale q k^T + bias + distances)), in which hidden keys are capped, too; may be
/// absent), logits (the stage that the fourth output, f32 [B, heads, rows, keys], has: "product", "masked", "capped" as if
/// cap_sum were 1, "weights"; absent where there is none). These two go with floats as caches, without sinks, smooth and
/// finite_causal.
/// No post_ops.
inline constexpr std::string_view kAttention = "attention";
/// n values, then n more of the same types -> n outputs, all outputs of the program, whose last op it is:
/// the first values while the inputs of the program that `inputs` lists hold their defaults, whose
/// XXH3-128 `high` and `low` are, else the others. A run computes only those that it takes.
/// params: inputs, high, low (as many each). No post_ops.
inline constexpr std::string_view kDefaults = "defaults";
/// a u8 or s8 [..., K], matrix u8 [bytes] (a weight: [K, N] packed as ctxgen/kernels/byte_product.h
/// says), zero? of a's type (one element), scale? (one element), scales? [1] or [N], bias? [N]:
/// the exact sums of (a - zero) times the matrix less its zero points, in s32, as they are or as f32 times
/// (scale * scales), plus bias. params: k, n, zeros (the packed matrix has zero points), limits (it has those; absent: 0),
/// out_scale, out_zero (of a u8 or s8 result, which only "relu" without a slope and "clip" come before).
inline constexpr std::string_view kByteMatmul = "byte_matmul";
/// a u8 or s8 [N, C, D1..Dk], k 1 or 2, and the other inputs of "byte_matmul", whose matrix is the weights
/// [K1..Kk, C, M]: the convolution of (a - zero), which padding counts as 0. params: k (C K1..Kk), n (M),
/// zeros, limits, out_scale, out_zero, kernel, strides, dilations, pads | auto_pad, group (absent: 1; or n, as many as there
/// are channels: the matrix is the weights as s8 [K1..Kk, M] as they are, k is K1..Kk, at most 512, zeros and limits are 0,
/// and the result is not s32).
inline constexpr std::string_view kByteConv = "byte_conv";
/// x [T, N, I], weights u8 [D, bytes] and recurrent weights u8 [D, bytes] (weights: [I, 4 O] and [O, 4 O] of each
/// direction packed as those of "byte_matmul", ONNX's order of gates), scales of both [D, 1] or [D, 4 O],
/// bias [D, 4 O], initial state? [D, N, O], initial cell? -> y [T, N, D*O], state [D, N, O], cell [D, N, O]: an LSTM
/// whose x, as a whole, and state, that of all N in each step, are rounded as "dynamic_quantize" does, by exact sums.
/// params: inputs (I), units (O), weight_zeros, recurrent_zeros (the packed matrices have zero points), limits (the packed
/// weights have those; absent: 0), direction ("forward", "reverse", "bidirectional"). No post_ops.
inline constexpr std::string_view kByteLstm = "byte_lstm";
/// src -> scale [], zero u8 [], y u8 of src's dims: ONNX's DynamicQuantizeLinear. No post_ops.
inline constexpr std::string_view kDynamicQuantize = "dynamic_quantize";
/// q [B, T, heads * size], k [B, T, some of the states * size], v [B, T, states * width], past? [B, states,
/// size, width], decay? [B, T, states] or [B, T, states * size], rate? [B, T, states] or [B, T, 1]
///   -> result [B, T, max(heads, states) * width], present [B, states, size, width]: ONNX's
/// LinearAttention (ctxgen/kernels/linear_attention.h); decay is the logarithm of a factor, without
/// rate nothing is corrected. params: heads, states, scale (0: 1 / sqrt(size)). No post_ops.
inline constexpr std::string_view kLinearAttention = "linear_attention";
/// x [B, C, L], weights [C, 1, K], bias? [C], past? [B, C, K - 1] -> result [B, C, L], present
/// [B, C, K - 1]: ONNX's CausalConvWithState. params: swish (0/1: result / (1 + exp(-result))). No
/// post_ops.
inline constexpr std::string_view kCausalConv = "causal_conv";

}  // namespace ctxgen::onednn::kind

/// Words of `alg` and of PostOp::kind.
/// Eltwise (oneDNN's definitions): relu (alpha: slope), clip (alpha..beta), linear (alpha*x+beta),
///   sigmoid, tanh, elu (alpha), exp, log, sqrt, abs, square, gelu_erf, gelu_tanh, swish (alpha),
///   hardswish (alpha, beta), hardsigmoid (alpha, beta), mish, soft_relu (alpha), round,
///   pow (alpha * x^beta).
/// Own loops only: floor, ceil, sign, erf, sin, cos, softsign (x / (1 + |x|)), threshold (x where it
///   is above alpha, else 0), power (x^beta by the C library's pow).
/// Binary: add, sub, mul, div, max, min, prelu (x < 0 ? x * operand : x), power (x ^ operand). As PostOp: dst = dst <op> operand, operand broadcastable
///   to dst. A full-size `add` whose operand dies there may run as oneDNN's in-place sum.
