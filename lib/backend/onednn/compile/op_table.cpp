#include "ctxgen/onednn/op_table.h"

#include <algorithm>
#include <ranges>

#include "op_row.h"
#include "ops/ops.h"

namespace ctxgen::onednn {

namespace {

constexpr std::string_view kOnnx;
constexpr bool kGlue = true;
constexpr bool kWork = false;

constexpr std::string_view kWindow = "auto_pad dilations group kernel_shape pads strides";
constexpr std::string_view kAveragePool =
    "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides";
constexpr std::string_view kMaxPool =
    "auto_pad ceil_mode dilations kernel_shape pads storage_order strides";
constexpr std::string_view kReduceAttributes = "axes keepdims noop_with_empty_axes";
constexpr std::string_view kRnnAttributes =
    "activation_alpha activation_beta activations direction hidden_size layout";
constexpr std::string_view kReduceLimits = "f32; constant axes; result not a scalar";
constexpr std::string_view kRnnLimits =
    "f32; constant weights and bias; every sequence whole; default activations; no clip";
constexpr std::string_view kScatterLimits =
    "f32, u8, s8, bool; constant indices that are a box of the data, in order; dims known where "
    "they apply; reduction none";
constexpr std::string_view kEltwiseLimits = "f32";
constexpr std::string_view kBinaryLimits = "f32; NumPy broadcasting; one operand may be constant";

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::string_view kQLinearPool =
    "auto_pad ceil_mode channels_last count_include_pad kernel_shape pads strides";
constexpr std::string_view kProductLimits =
    "u8 or s8; constant u8 or s8 weights, per tensor or per channel (integer products if they fit in s8 less their zero point, in groups only if the machine has VNNI; else f32); constant scales; a result may differ by 1 if the exact one is within 2^-13 of a tie";
constexpr std::string_view kQLinearLimits =
    "u8 or s8; constant scales and zero points, one each; a result may differ by 1 if the exact one is within 2^-13 of a tie";

// consumed_inputs told version 1 operators about in-place use; it never changed a result.
constexpr OpRow kOps[] = {
    // domain, op_type, since min, max, check, lower, glue, attributes, limits
    {kOnnx, "Abs", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Add", 1, 14, check_binary, lower_binary, kWork, "axis broadcast consumed_inputs",
     kBinaryLimits},
    {kOnnx, "Attention", 23, 24, check_attention, lower_attention, kWork,
     "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softcap softmax_precision",
     "f32; the number of heads known"},
    {kOnnx, "AveragePool", 1, 22, check_average_pool, lower_average_pool, kWork, kAveragePool,
     "f32; 1 to 3 spatial dims; pads smaller than the kernel"},
    {kOnnx, "BatchNormalization", 1, 15, check_batch_norm, lower_batch_norm, kWork,
     "consumed_inputs epsilon is_test momentum spatial training_mode",
     "f32; inference form; dims of scale, bias, mean and variance known"},
    {kOnnx, "Cast", 1, 25, check_cast, lower_cast, kGlue, "round_mode saturate to",
     "f32 and f16 to f32 and f16; s32, u8, s8 to f32"},
    {kOnnx, "CausalConvWithState", 27, 27, check_causal_conv, lower_causal_conv, kWork,
     "activation", "f32"},
    {kOnnx, "Ceil", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Celu", 12, 12, check_activation, lower_activation, kWork, "alpha", kEltwiseLimits},
    {kOnnx, "Clip", 1, 6, check_clip_attributes, lower_clip_attributes, kWork,
     "consumed_inputs max min", "f32; min not above max"},
    {kOnnx, "Clip", 11, 13, check_clip_inputs, lower_clip_inputs, kWork, "",
     "f32; constant min and max, min not above max"},
    {kOnnx, "Concat", 1, 13, check_concat, lower_concat, kGlue, "axis", "f32, u8, s8, bool"},
    {kOnnx, "Conv", 1, 22, check_conv, lower_conv, kWork, kWindow,
     "f32; 1 to 3 spatial dims; dims of weights known; no negative pads"},
    {kOnnx, "ConvInteger", 10, 10, check_conv_integer, lower_conv_integer, kWork, kWindow,
     "u8 or s8 by constant u8 or s8 weights; one zero point of the source; 1 or 2 spatial dims in one group (if the machine has VNNI, "
     "all that fit in s8 less constant zero points, one each)"},
    {kOnnx, "ConvTranspose", 1, 22, check_deconv, lower_deconv, kWork,
     "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
     "f32; constant weights and bias; 1 to 3 spatial dims; sizes known where pads depend on them"},
    {kOnnx, "Cos", 7, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "DepthToSpace", 1, 13, check_blocks, lower_blocks, kGlue, "blocksize mode", "f32"},
    {kOnnx, "DequantizeLinear", 10, 25, check_dequantize, lower_dequantize, kGlue,
     "axis block_size output_dtype",
     "u8, s8, s32 to f32; one constant scale and zero point for values (constants are folded, but for "
     "weights of 2, 4 or 8-bit integers that a MatMul, Gemm or Conv multiplies by: they stay as they "
     "are, scaled as a whole, by column or in blocks of multiples of 16)"},
    {kOnnx, "Div", 1, 14, check_binary, lower_binary, kWork, "axis broadcast consumed_inputs",
     kBinaryLimits},
    {kOnnx, "Dropout", 1, 22, check_dropout, lower_identity, kGlue,
     "consumed_inputs is_test ratio seed", "f32, u8, s8; inference form; no mask"},
    {kOnnx, "DynamicQuantizeLinear", 11, 11, check_dynamic_quantize, lower_dynamic_quantize, kWork,
     "", "f32"},
    {kOnnx, "Elu", 1, 22, check_activation, lower_activation, kWork, "alpha consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Erf", 9, 13, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "Exp", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Expand", 8, 13, check_expand, lower_expand, kGlue, "",
     "f32, u8, s8, bool; constant shape, or one computed from sizes"},
    {kOnnx, "Flatten", 1, 25, check_flatten, lower_flatten, kGlue, "axis", "f32, u8, s8, bool"},
    {kOnnx, "Floor", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "GRU", 7, 22, check_rnn, lower_rnn, kWork,
     "activation_alpha activation_beta activations direction hidden_size layout "
     "linear_before_reset",
     kRnnLimits},
    {kOnnx, "Gather", 1, 13, check_gather, lower_gather, kGlue, "axis",
     "f32; constant indices, at most 4096, or a constant table (f32, u8, s8) and axis 0"},
    {kOnnx, "Gelu", 20, 20, check_activation, lower_activation, kWork, "approximate",
     kEltwiseLimits},
    {kOnnx, "Gemm", 1, 13, check_gemm, lower_gemm, kWork, "alpha beta broadcast transA transB",
     "f32; A and B not both constant"},
    {kOnnx, "GlobalAveragePool", 1, 22, check_global_pool, lower_global_pool, kWork, "",
     "f32; 1 to 3 spatial dims"},
    {kOnnx, "GlobalMaxPool", 1, 22, check_global_pool, lower_global_pool, kWork, "",
     "f32; 1 to 3 spatial dims"},
    {kOnnx, "GroupNormalization", 18, 21, check_group_norm, lower_group_norm, kWork,
     "epsilon num_groups stash_type",
     "f32; known number of channels; below opset 21 constant scale and bias"},
    {kOnnx, "HardSigmoid", 1, 22, check_activation, lower_activation, kWork,
     "alpha beta consumed_inputs", kEltwiseLimits},
    {kOnnx, "HardSwish", 14, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "Identity", 1, 25, check_identity, lower_identity, kGlue, "", "f32, u8, s8, bool"},
    {kOnnx, "InstanceNormalization", 1, 22, check_group_norm, lower_group_norm, kWork,
     "consumed_inputs epsilon", "f32; known number of channels"},
    {kOnnx, "LRN", 1, 13, check_lrn, lower_lrn, kWork, "alpha beta bias size",
     "f32; 1 to 3 spatial dims"},
    {kOnnx, "LSTM", 7, 22, check_rnn, lower_rnn, kWork,
     "activation_alpha activation_beta activations direction hidden_size input_forget layout",
     "f32; constant weights and bias; every sequence whole; default activations; no clip, no "
     "peepholes"},
    {kOnnx, "LayerNormalization", 17, 17, check_layer_norm, lower_layer_norm, kWork,
     "axis epsilon stash_type",
     "f32; scale and bias of the normalised dims; no Mean or InvStdDev output"},
    {kOnnx, "LeakyRelu", 1, 16, check_activation, lower_activation, kWork, "alpha consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "LinearAttention", 27, 27, check_linear_attention, lower_linear_attention, kWork,
     "chunk_size kv_num_heads q_num_heads scale update_rule", "f32"},
    {kOnnx, "Log", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "LogSoftmax", 1, 11, check_softmax_flattened, lower_softmax_flattened, kWork, "axis",
     "f32; at most one dim of unknown size from axis on"},
    {kOnnx, "LogSoftmax", 13, 13, check_softmax, lower_softmax, kWork, "axis", "f32; any axis"},
    {kOnnx, "MatMul", 1, 13, check_matmul, lower_matmul, kWork, "",
     "f32; operands not both constant; result not a scalar"},
    {kOnnx, "MatMulInteger", 10, 10, check_matmul_integer, lower_matmul_integer, kWork, "",
     "u8 or s8 by a constant u8 or s8 matrix, zero points of one element or one per column; one zero point of A"},
    {kOnnx, "Max", 1, 13, check_variadic, lower_variadic, kWork, "consumed_inputs", kBinaryLimits},
    {kOnnx, "MaxPool", 1, 22, check_max_pool, lower_max_pool, kWork, kMaxPool,
     "f32, u8, s8; 1 to 3 spatial dims; no indices; pads smaller than the kernel"},
    {kOnnx, "Mean", 1, 13, check_variadic, lower_variadic, kWork, "consumed_inputs", kBinaryLimits},
    {kOnnx, "Min", 1, 13, check_variadic, lower_variadic, kWork, "consumed_inputs", kBinaryLimits},
    {kOnnx, "Mish", 18, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "Mul", 1, 14, check_binary, lower_binary, kWork, "axis broadcast consumed_inputs",
     kBinaryLimits},
    {kOnnx, "Neg", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "PRelu", 1, 16, check_prelu, lower_prelu, kWork, "consumed_inputs",
     "f32; below opset 7 a constant slope"},
    {kOnnx, "Pad", 1, 25, check_pad, lower_pad, kGlue, "mode paddings pads value",
     "f32; constant pads and value"},
    {kOnnx, "Pow", 7, 15, check_pow, lower_pow, kWork, "", "f32"},
    {kOnnx, "QLinearConv", 10, 10, check_qlinear_conv, lower_qlinear_conv, kWork, kWindow,
     kProductLimits},
    {kOnnx, "QLinearMatMul", 10, 21, check_qlinear_matmul, lower_qlinear_matmul, kWork, "",
     kProductLimits},
    {kOnnx, "QuantizeLinear", 10, 25, check_quantize, lower_quantize, kGlue,
     "axis block_size output_dtype precision saturate",
     "f32 or f16 to u8 or s8; one constant scale and zero point"},
    {kOnnx, "RMSNormalization", 23, 23, check_rms_norm, lower_rms_norm, kWork,
     "axis epsilon stash_type", "f32; scale of the normalised dims"},
    {kOnnx, "RNN", 7, 22, check_rnn, lower_rnn, kWork, kRnnAttributes, kRnnLimits},
    {kOnnx, "Reciprocal", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "ReduceL1", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes, kReduceLimits},
    {kOnnx, "ReduceL2", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes, kReduceLimits},
    {kOnnx, "ReduceLogSum", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceLogSumExp", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceMax", 1, 20, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceMean", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceMin", 1, 20, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceProd", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceSum", 1, 13, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "ReduceSumSquare", 1, 18, check_reduce, lower_reduce, kWork, kReduceAttributes,
     kReduceLimits},
    {kOnnx, "Relu", 1, 14, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Reshape", 1, 25, check_reshape, lower_reshape, kGlue,
     "allowzero consumed_inputs shape", "f32, u8, s8, bool; constant shape without empty dims"},
    {kOnnx, "Resize", 10, 19, check_resize, lower_resize, kWork,
     "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
     "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
     "f32; nearest, or linear over spatial dims; constant scales or sizes; no tf_crop_and_resize, "
     "no antialias"},
    {kOnnx, "Round", 11, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "ScatterElements", 11, 18, check_scatter, lower_scatter, kGlue, "axis reduction",
     kScatterLimits},
    {kOnnx, "ScatterND", 11, 18, check_scatter, lower_scatter, kGlue, "reduction", kScatterLimits},
    {kOnnx, "Selu", 1, 22, check_activation, lower_activation, kWork, "alpha consumed_inputs gamma",
     kEltwiseLimits},
    {kOnnx, "Sigmoid", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Sign", 9, 13, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "SimplifiedLayerNormalization", 1, 1, check_rms_norm, lower_rms_norm, kWork,
     "axis epsilon stash_type", "f32; scale of the normalised dims; ONNX Runtime's"},
    {kOnnx, "Sin", 7, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "Slice", 1, 13, check_slice, lower_slice, kGlue, "axes ends starts",
     "f32, u8, s8, bool; constant starts, ends, axes and steps"},
    {kOnnx, "Softmax", 1, 11, check_softmax_flattened, lower_softmax_flattened, kWork, "axis",
     "f32; at most one dim of unknown size from axis on"},
    {kOnnx, "Softmax", 13, 13, check_softmax, lower_softmax, kWork, "axis", "f32; any axis"},
    {kOnnx, "Softplus", 1, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "Softsign", 1, 22, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kOnnx, "SpaceToDepth", 1, 13, check_blocks, lower_blocks, kGlue, "blocksize", "f32"},
    {kOnnx, "Split", 1, 18, check_split, lower_split, kGlue, "axis num_outputs split",
     "f32, u8, s8, bool; constant sizes; no empty part"},
    {kOnnx, "Sqrt", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "Squeeze", 1, 25, check_squeeze, lower_squeeze, kGlue, "axes",
     "f32, u8, s8, bool; constant axes; without axes only where all dims are known"},
    {kOnnx, "Sub", 1, 14, check_binary, lower_binary, kWork, "axis broadcast consumed_inputs",
     kBinaryLimits},
    {kOnnx, "Sum", 1, 13, check_variadic, lower_variadic, kWork, "consumed_inputs", kBinaryLimits},
    {kOnnx, "Swish", 24, 24, check_activation, lower_activation, kWork, "alpha", kEltwiseLimits},
    {kOnnx, "Tanh", 1, 13, check_activation, lower_activation, kWork, "consumed_inputs",
     kEltwiseLimits},
    {kOnnx, "ThresholdedRelu", 10, 22, check_activation, lower_activation, kWork, "alpha",
     kEltwiseLimits},
    {kOnnx, "Tile", 6, 13, check_tile, lower_tile, kGlue, "", "f32; constant repeats"},
    {kOnnx, "Transpose", 1, 25, check_transpose, lower_transpose, kGlue, "perm",
     "f32, u8, s8, bool"},
    {kOnnx, "Unsqueeze", 1, 25, check_unsqueeze, lower_unsqueeze, kGlue, "axes",
     "f32, u8, s8, bool; constant axes"},
    {kOnnx, "Upsample", 7, 10, check_resize, lower_resize, kWork, "mode scales",
     "f32; nearest, or linear over spatial dims; constant scales"},
    {kOnnx, "Where", 9, 16, check_where, lower_where, kGlue, "",
     "f32; NumPy broadcasting; the condition may be constant, or a value of bool"},
    {kMicrosoft, "Attention", 1, 1, check_projected_attention, lower_projected_attention, kWork,
     "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
     "rotary_embedding_dim scale unidirectional",
     "f32; constant weights and bias; queries, keys and values of one size; no mask, or one of [batch, "
     "keys]; no past or present, no rotary"},
    {kMicrosoft, "BiasGelu", 1, 1, check_bias_gelu, lower_bias_gelu, kWork, "",
     "f32; bias of the last dim"},
    {kMicrosoft, "CausalConvWithState", 1, 1, check_causal_conv, lower_causal_conv, kWork,
     "activation channels_last dilation ndim state_window",
     "f32; [batch, channels, length]; dilation 1; no state_window"},
    {kMicrosoft, "DynamicQuantizeLSTM", 1, 1, check_rnn, lower_rnn, kWork,
     "activation_alpha activation_beta activations direction hidden_size input_forget",
     "f32 by constant u8 or s8 weights; constant scales, zero points and bias; every sequence whole; "
     "default activations; no clip, no peepholes"},
    {kMicrosoft, "DynamicQuantizeMatMul", 1, 1, check_dynamic_quantize_matmul,
     lower_dynamic_quantize_matmul, kWork, "",
     "f32 by a constant u8 or s8 matrix; constant scales, zero points and bias"},
    {kMicrosoft, "FastGelu", 1, 1, check_bias_gelu, lower_bias_gelu, kWork, "",
     "f32; bias of the last dim"},
    {kMicrosoft, "FusedConv", 1, 1, check_fused_conv, lower_fused_conv, kWork,
     "activation activation_params auto_pad dilations group kernel_shape pads strides",
     "f32; 1 to 3 spatial dims; dims of weights known; Clip, Elu, HardSigmoid, LeakyRelu, Relu, "
     "Sigmoid, Tanh"},
    {kMicrosoft, "FusedGemm", 1, 1, check_fused_gemm, lower_fused_gemm, kWork,
     "activation activation_alpha activation_beta alpha beta transA transB",
     "f32; A and B not both constant; activations of FusedConv"},
    {kMicrosoft, "FusedMatMul", 1, 1, check_fused_matmul, lower_fused_matmul, kWork,
     "alpha transA transB transBatchA transBatchB", "f32; no vectors, no transposed batch"},
    {kMicrosoft, "GatherBlockQuantized", 1, 1, check_gather_blocks, lower_gather_blocks, kWork,
     "bits block_size gather_axis quantize_axis",
     "f32; rows of a constant table: u4, s4, or 2, 4 or 8 bits in u8"},
    {kMicrosoft, "Gelu", 1, 1, check_activation, lower_activation, kWork, "", kEltwiseLimits},
    {kMicrosoft, "GroupQueryAttention", 1, 1, check_group_query, lower_group_query, kWork,
     "causal do_rotary k_quant_type kv_cache_bit_width kv_num_heads local_window_size num_heads "
     "qk_norm_epsilon qk_output rotary_interleaved scale sliding_window_cache smooth_softmax softcap "
     "v_quant_type",
     "f32; total_sequence_length made of sizes; head_sink, norms of heads and scales of caches constant; "
     "caches f32, s8, or 4 bits in u8; no position ids, no sliding_window_cache"},
    {kMicrosoft, "LinearAttention", 1, 1, check_linear_attention, lower_linear_attention, kWork,
     "chunk_size kv_num_heads q_num_heads scale state_window update_rule", "f32; no state_window"},
    {kMicrosoft, "MatMulIntegerToFloat", 1, 1, check_matmul_integer_to_float,
     lower_matmul_integer_to_float, kWork, "",
     "u8 or s8 by a constant u8 or s8 matrix; one scale and zero point of A; constant scales, zero "
     "points of B and bias"},
    {kMicrosoft, "MatMulNBits", 1, 1, check_matmul_nbits, lower_matmul_nbits, kWork,
     "K N accuracy_level bits block_size weight_prepacked",
     "f32; constant B, scales, zero_points and bias; 2, 4 or 8 bits in blocks of 16 to 256; no g_idx; "
     "accuracy_level 4: A is rounded to 8-bit integers, a block at a time, unless zero_points are "
     "f32"},
    {kMicrosoft, "MultiHeadAttention", 1, 1, check_multi_head, lower_multi_head, kWork,
     "mask_filter_value num_heads scale unidirectional",
     "f32; key and value not packed; bias constant; no key_padding_mask but of [batch, keys]; no beam "
     "search inputs"},
    {kMicrosoft, "QAttention", 1, 1, check_qattention, lower_qattention, kWork,
     "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional",
     "u8 or s8 by constant u8 or s8 weights; one scale and zero point of the input; constant scales, zero "
     "points and bias; no mask, or one of [batch, keys]; no past or present, no rotary"},
    {kMicrosoft, "QGemm", 1, 1, check_qgemm, lower_qgemm, kWork, "alpha transA transB",
     "u8 or s8 by a constant u8 or s8 matrix; constant scales, zero points and C, which is a row or one "
     "number"},
    {kMicrosoft, "QLinearAdd", 1, 1, check_qlinear_binary, lower_qlinear_binary, kWork, "",
     kQLinearLimits},
    {kMicrosoft, "QLinearAveragePool", 1, 1, check_qlinear_pool, lower_qlinear_pool, kWork,
     kQLinearPool, "as QLinearAdd; 1 to 3 spatial dims; channels second; no ceil_mode"},
    {kMicrosoft, "QLinearGlobalAveragePool", 1, 1, check_qlinear_pool, lower_qlinear_pool, kWork,
     "channels_last", "as QLinearAdd; 1 to 3 spatial dims; channels second"},
    {kMicrosoft, "QLinearLeakyRelu", 1, 1, check_qlinear_activation, lower_qlinear_activation,
     kWork, "alpha", kQLinearLimits},
    {kMicrosoft, "QLinearMul", 1, 1, check_qlinear_binary, lower_qlinear_binary, kWork, "",
     kQLinearLimits},
    {kMicrosoft, "QLinearSigmoid", 1, 1, check_qlinear_activation, lower_qlinear_activation, kWork,
     "", kQLinearLimits},
    {kMicrosoft, "QLinearSoftmax", 1, 1, check_qlinear_softmax, lower_qlinear_softmax, kWork,
     "axis opset", "as QLinearAdd; over the last axis"},
    {kMicrosoft, "QuickGelu", 1, 1, check_activation, lower_activation, kWork, "alpha",
     kEltwiseLimits},
    {kMicrosoft, "SkipLayerNormalization", 1, 1, check_skip_layer_norm, lower_skip_layer_norm,
     kWork, "epsilon",
     "f32; skip with the input's last dims; gamma, beta and bias of the last dim"},
    {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, 1, check_skip_rms_norm, lower_skip_rms_norm,
     kWork, "epsilon", "f32; skip with the input's last dims; gamma and bias of the last dim"},
};

bool lists(std::string_view names, std::string_view name) {
  return std::ranges::any_of(names | std::views::split(' '), [&](const auto& part) {
    return std::string_view(part.begin(), part.end()) == name;
  });
}

bool all_inputs_constant(const NodeView& n) {
  return std::ranges::all_of(
      n.node().inputs, [&](ValueId id) { return !id.valid() || n.view().constant(id) != nullptr; });
}

}  // namespace

std::span<const OpRow> op_rows() { return kOps; }

const OpRow* find_row(const Node& node) {
  const OpRow* found = nullptr;
  for (const OpRow& row : std::ranges::equal_range(
           kOps, std::pair<std::string_view, std::string_view>(node.domain, node.op_type), {},
           [](const OpRow& row) { return std::pair(row.domain, row.op_type); })) {
    if (row.since_min <= node.opset) found = &row;
  }
  return found;
}

Refusal check_node(const NodeView& n) {
  const OpRow* row = find_row(n.node());
  if (n.output(0).valid() && n.view().constant(n.output(0)) != nullptr) {
    return "its result is a constant";
  }
  if (row == nullptr) return "operator has no oneDNN lowering";
  if (!n.has_input(0)) return "input 0 is absent";
  if (!n.output(0).valid()) return "first output is absent";
  if (all_inputs_constant(n)) return "all inputs are constant";
  for (const Attribute& attribute : n.node().attributes) {
    if (!lists(row->attributes, attribute.name)) {
      return std::format("attribute \"{}\" is not known", attribute.name);
    }
  }
  return row->check(n);
}

Status lower_node(const NodeView& n, ProgramBuilder& builder) {
  const OpRow* row = find_row(n.node());
  CTXGEN_ASSERT(row != nullptr);
  return row->lower(n, builder);
}

std::vector<OpInfo> op_infos() {
  std::vector<OpInfo> infos;
  for (const OpRow& row : kOps) {
    infos.push_back({.domain = row.domain,
                     .op_type = row.op_type,
                     .since_min = row.since_min,
                     .since_max = row.since_max,
                     .glue = row.glue,
                     .limits = row.limits});
  }
  return infos;
}

}  // namespace ctxgen::onednn
