#include <algorithm>
#include <array>
#include <cmath>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels_attention.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Attention by our own kernels: oneDNN computes it in three steps that keep all logits, and has no caches.
namespace ctxgen::onednn {

namespace {

using kernels::HeadStrides;

enum Input : std::size_t {
  kQ,
  kK,
  kV,
  kPastKey,
  kPastValue,
  kLengths,
  kBias,
  kCos,
  kSin,
  kDistances,
  kInputs
};

/// Heads of q, k or v: [images, heads, rows, size], or [images, rows, heads * size].
struct Heads {
  std::int64_t images = 0, rows = 0, size = 0;
  HeadStrides strides;
};

/// The first `heads` of `all` heads, which are more in the second form only.
Result<Heads> heads_of(const ProgramOp& op, const Dims& dims, std::int64_t heads,
                       std::int64_t all) {
  if (dims.size() == 4 && dims[1] == heads && all == heads)
    return Heads{dims[0],
                 dims[2],
                 dims[3],
                 {.image = heads * dims[2] * dims[3], .head = dims[2] * dims[3], .row = dims[3]}};
  if (dims.size() != 3 || dims[2] % all != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} of {} heads", label(op), to_string(dims), all);
  const std::int64_t size = dims[2] / all;
  return Heads{dims[0], dims[1], size, {.image = dims[1] * dims[2], .head = size, .row = dims[2]}};
}

/// The dims of a bias over images, heads and queries; how many keys there are is a number of the run.
Status read_bias(const ProgramOp& op, const Dims& dims, AttentionWork& work) {
  const kernels::AttentionSizes& s = work.attend.sizes;
  if (work.mask_value) {
    const bool plain = dims.size() == 2 && dims[0] == s.images;
    const bool shared =
        dims.size() == 4 && (dims[0] == s.images || dims[0] == 1) && dims[1] == 1 && dims[2] == 1;
    if (!plain && !shared)
      return fail(ErrorCode::kInvalidGraph, "{}: mask {} for {} sequences", label(op),
                  to_string(dims), s.images);
    work.planned.bias_keys = dims.back();
    work.bias_dims[0] = dims[0];
    return {};
  }
  const std::array<std::int64_t, 3> full{s.images, s.heads, s.queries};
  if (dims.size() > 4)
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}", label(op), to_string(dims));
  work.planned.bias_keys = dims.empty() ? 1 : dims.back();
  for (std::size_t back = 1; back < dims.size(); ++back) {
    const std::size_t i = 3 - back;
    const std::int64_t dim = dims[dims.size() - 1 - back];
    if (dim != 1 && dim != full[i])
      return fail(ErrorCode::kInvalidGraph, "{}: bias {} over {} x {} x {}", label(op),
                  to_string(dims), full[0], full[1], full[2]);
    work.bias_dims[i] = dim;
  }
  return {};
}

Status expect_input(const ProgramOp& op, ShapeInputs in, std::size_t i, const Dims& expected) {
  if (in[i].dims == expected) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}, expected {}", label(op), i,
              to_string(in[i].dims), to_string(expected));
}

Status read_words(const ProgramOp& op, const AttentionParams& params, AttentionWork& work) {
  if (params.lengths == "last")
    work.lengths = AttentionLengths::kLast;
  else if (params.lengths == "count")
    work.lengths = AttentionLengths::kCount;
  else if (!params.lengths.empty())
    return fail(ErrorCode::kUnsupported, "{}: lengths \"{}\"", label(op), params.lengths);
  work.has_rotary = !params.rotary.empty();
  if (params.rotary == "neighbours")
    work.pairs = kernels::RotaryPairs::kNeighbours;
  else if (work.has_rotary && params.rotary != "halves")
    return fail(ErrorCode::kUnsupported, "{}: rotary \"{}\"", label(op), params.rotary);
  return {};
}

Status read_sinks(const ProgramOp& op, const AttentionParams& params, AttentionWork& work) {
  constexpr double kMost = 1e30;
  if (params.sinks.empty()) return {};
  if (params.smooth || std::ssize(params.sinks) != params.heads)
    return fail(ErrorCode::kInvalidGraph, "{}: {} sinks of {} heads, smooth {}", label(op),
                params.sinks.size(), params.heads, params.smooth);
  for (const double sink : params.sinks) {
    if (!(std::fabs(sink) <= kMost))
      return fail(ErrorCode::kInvalidGraph, "{}: a sink of {}", label(op), sink);
    work.sinks.push_back(static_cast<float>(sink));
  }
  return {};
}

/// The value that a mask adds, and norms of heads, which need their size.
Status read_mask_and_norms(const ProgramOp& op, ShapeInputs in, const AttentionParams& params,
                           AttentionWork& work) {
  const std::int64_t size = work.attend.sizes.size;
  const auto floats_of = [&](const std::vector<double>& factors, std::vector<float>& to) {
    for (const double factor : factors) to.push_back(static_cast<float>(factor));
  };
  if (params.mask_value) {
    if (!in[kBias].present || params.short_bias || !(*params.mask_value < 0) ||
        !std::isfinite(static_cast<float>(*params.mask_value)))
      return fail(ErrorCode::kInvalidGraph, "{}: mask_value {}", label(op), *params.mask_value);
    work.mask_value = static_cast<float>(*params.mask_value);
  }
  if (params.q_norm.size() != params.k_norm.size() ||
      params.q_norm.empty() != !params.norm_epsilon ||
      (!params.q_norm.empty() && (std::ssize(params.q_norm) != size || op.outputs.size() < 3)))
    return fail(ErrorCode::kInvalidGraph, "{}: norms of {} and {} for heads of {}", label(op),
                params.q_norm.size(), params.k_norm.size(), size);
  floats_of(params.q_norm, work.q_norm);
  floats_of(params.k_norm, work.k_norm);
  work.norm_epsilon = static_cast<float>(params.norm_epsilon.value_or(0));
  return {};
}

/// How caches keep their numbers.
Status read_cache(const ProgramOp& op, const AttentionParams& params, AttentionWork& work) {
  kernels::AttentionSizes& s = work.attend.sizes;
  if (!params.cache_bits) {
    if (params.k_scales.empty() && params.v_scales.empty()) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: scales of a cache of floats", label(op));
  }
  const bool one = params.k_scales.size() == 1 && params.v_scales.size() == 1;
  const bool per_element = std::ssize(params.k_scales) == s.kv_heads * s.size &&
                           std::ssize(params.v_scales) == s.kv_heads * s.value_size;
  if ((*params.cache_bits != 4 && *params.cache_bits != 8) || (!one && !per_element) ||
      op.outputs.size() != 3 || std::max(s.size, s.value_size) > kMostQuantisedSize)
    return fail(ErrorCode::kInvalidGraph, "{}: a cache of {} bits with {} and {} scales", label(op),
                *params.cache_bits, params.k_scales.size(), params.v_scales.size());
  s.quantised = true;
  work.cache = {.bits = static_cast<int>(*params.cache_bits), .per_element = !one};
  for (const double scale : params.k_scales) work.k_scales.push_back(static_cast<float>(scale));
  for (const double scale : params.v_scales) work.v_scales.push_back(static_cast<float>(scale));
  return {};
}

/// What is different where all logits of a row are kept at once: they are a result, or the cap is over all of them.
Status read_logits(const ProgramOp& op, const AttentionParams& params, AttentionWork& work) {
  using Stage = kernels::LogitStage;
  constexpr std::array<std::pair<std::string_view, Stage>, 4> kStages{
      {{"product", Stage::kProduct},
       {"masked", Stage::kMasked},
       {"capped", Stage::kCapped},
       {"weights", Stage::kWeight}}};
  work.has_logits = op.outputs.size() == 4;
  if (work.has_logits == params.logits.empty())
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs with logits \"{}\"", label(op),
                op.outputs.size(), params.logits);
  if (work.has_logits) {
    const auto* found = std::ranges::find(kStages, params.logits,
                                          &std::pair<std::string_view, kernels::LogitStage>::first);
    if (found == kStages.end())
      return fail(ErrorCode::kUnsupported, "{}: logits \"{}\"", label(op), params.logits);
    work.attend.logits.stage = found->second;
  }
  work.attend.sizes.whole = work.has_logits || params.cap_sum.value_or(0) != 0;
  if (work.attend.sizes.whole &&
      (params.cache_bits || params.smooth || !params.sinks.empty() || params.finite_causal))
    return fail(ErrorCode::kInvalidGraph, "{}: logits of whole rows with another softmax",
                label(op));
  return {};
}

/// The last dim of a past or present of rows of `size` numbers.
std::int64_t cache_width(const AttentionWork& work, std::int64_t size) {
  return work.attend.sizes.quantised ? work.cache.row_bytes(size) : size;
}

Status read_heads(const ProgramOp& op, ShapeInputs in, const AttentionParams& params,
                  AttentionWork& work) {
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 20U;
  if (params.finite_causal &&
      (!params.causal || params.window > 0 || params.softcap != 0 || params.smooth ||
       !params.sinks.empty() || params.short_bias || !params.lengths.empty()))
    return fail(ErrorCode::kInvalidGraph, "{}: finite_causal with another mask", label(op));
  if (params.bottom_right.value_or(0) != 0 &&
      (!params.causal || !params.lengths.empty() || op.outputs.size() >= 3))
    return fail(ErrorCode::kInvalidGraph,
                "{}: bottom_right with lengths or presents, or without causal", label(op));
  if (params.heads < 1 || params.kv_heads < 1 || params.heads > kMostHeads ||
      params.heads % params.kv_heads != 0 || params.window < 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} heads, {} of keys, window {}", label(op),
                params.heads, params.kv_heads, params.window);
  kernels::AttentionSizes& s = work.attend.sizes;
  work.packed = !in[kK].present;
  if (in[kV].present == work.packed)
    return fail(ErrorCode::kInvalidGraph, "{}: only one of keys and values", label(op));
  const Heads q = CTXGEN_TRY(heads_of(op, in[kQ].dims, params.heads,
                                      params.heads + (work.packed ? 2 * params.kv_heads : 0)));
  Heads k = q, v = q;
  if (!work.packed) {
    k = CTXGEN_TRY(heads_of(op, in[kK].dims, params.kv_heads, params.kv_heads));
    v = CTXGEN_TRY(heads_of(op, in[kV].dims, params.kv_heads, params.kv_heads));
  }
  if (k.images != q.images || v.images != q.images || k.rows != v.rows || k.size != q.size ||
      q.size < 1 || v.size < 1)
    return fail(ErrorCode::kInvalidGraph, "{}: q {}, k {} and v {}", label(op),
                to_string(in[kQ].dims), to_string(in[kK].dims), to_string(in[kV].dims));
  s.images = q.images;
  s.heads = params.heads;
  s.kv_heads = params.kv_heads;
  s.queries = q.rows;
  s.size = q.size;
  s.value_size = v.size;
  work.added = k.rows;
  work.attend.q_strides = q.strides;
  work.attend.k_strides = k.strides;
  work.attend.v_strides = v.strides;
  work.k_heads_first = !work.packed && in[kK].dims.size() == 4;
  work.v_heads_first = !work.packed && in[kV].dims.size() == 4;
  return {};
}

/// How many keys there are, and what the past and the lengths must be for that.
Status read_keys(const ProgramOp& op, ShapeInputs in, const AttentionParams& params,
                 AttentionWork& work) {
  kernels::AttentionSizes& s = work.attend.sizes;
  work.has_present = op.outputs.size() == 3 || work.has_logits;
  work.has_past = in[kPastKey].present;
  if (in[kPastValue].present != work.has_past || (work.has_past && !work.has_present) ||
      (op.outputs.size() != 1 && !work.has_present))
    return fail(ErrorCode::kInvalidGraph, "{}: past and present do not fit", label(op));
  if (work.has_past) {
    const std::int64_t past = in[kPastKey].dims.size() == 4 ? in[kPastKey].dims[2] : 0;
    CTXGEN_CHECK(
        expect_input(op, in, kPastKey, {s.images, s.kv_heads, past, cache_width(work, s.size)}));
    CTXGEN_CHECK(expect_input(op, in, kPastValue,
                              {s.images, s.kv_heads, past, cache_width(work, s.value_size)}));
    work.planned.past = work.planned.past_value = past;
  }
  if (!params.total.empty()) work.planned.total = params.total[0];
  const bool last = work.lengths == AttentionLengths::kLast;
  if (params.total.size() > 1 || params.total.empty() == last || (last && !work.has_present) ||
      (last && work.added != s.queries) ||
      in[kLengths].present != (work.lengths != AttentionLengths::kAll) ||
      (work.lengths == AttentionLengths::kCount && work.has_past))
    return fail(ErrorCode::kInvalidGraph, "{}: lengths \"{}\" with {} totals, {} past and {} new",
                label(op), params.lengths, params.total.size(), work.planned.past, work.added);
  if (in[kLengths].present && volume(in[kLengths].dims) != s.images)
    return fail(ErrorCode::kInvalidGraph, "{}: lengths {} for {} sequences", label(op),
                to_string(in[kLengths].dims), s.images);
  return {};
}

Status read_rotary(const ProgramOp& op, ShapeInputs in, AttentionWork& work) {
  if (in[kCos].present != work.has_rotary || in[kSin].present != work.has_rotary ||
      (work.has_rotary && !work.has_present))
    return fail(ErrorCode::kInvalidGraph, "{}: rotary caches do not fit", label(op));
  if (!work.has_rotary) return {};
  const Dims& cos = in[kCos].dims;
  if (cos.size() != 2 || in[kSin].dims != cos || cos[1] > work.attend.sizes.size / 2)
    return fail(ErrorCode::kInvalidGraph, "{}: cos {} and sin {} for heads of {}", label(op),
                to_string(cos), to_string(in[kSin].dims), work.attend.sizes.size);
  work.positions = cos[0];
  work.half = cos[1];
  return {};
}

/// What is added by distance: [heads, distances].
Status read_distances(const ProgramOp& op, ShapeInputs in, AttentionWork& work) {
  if (!in[kDistances].present) return {};
  const Dims& dims = in[kDistances].dims;
  if (dims.size() != 2 || dims[0] != work.attend.sizes.heads || dims[1] < 1)
    return fail(ErrorCode::kInvalidGraph, "{}: distances {} of {} heads", label(op),
                to_string(dims), work.attend.sizes.heads);
  work.attend.distances.count = dims[1];
  return {};
}

/// All that dims and parameters say.
Result<AttentionWork> describe_attention(const ProgramOp& op, ShapeInputs given) {
  std::vector<ShapeInput> in(given.begin(), given.end());
  in.resize(kInputs);
  const auto params = CTXGEN_TRY(decode<AttentionParams>(op));
  AttentionWork work;
  work.name = label(op);
  CTXGEN_CHECK(read_words(op, params, work));
  CTXGEN_CHECK(read_heads(op, in, params, work));
  CTXGEN_CHECK(read_sinks(op, params, work));
  CTXGEN_CHECK(read_mask_and_norms(op, in, params, work));
  CTXGEN_CHECK(read_cache(op, params, work));
  CTXGEN_CHECK(read_logits(op, params, work));
  CTXGEN_CHECK(read_keys(op, in, params, work));
  CTXGEN_CHECK(read_rotary(op, in, work));
  CTXGEN_CHECK(read_distances(op, in, work));
  kernels::Attention& a = work.attend;
  a.scale = static_cast<float>(
      params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(a.sizes.size)));
  a.softcap = static_cast<float>(params.softcap);
  a.causal = params.causal;
  a.extra_zero = params.smooth;
  a.window = params.window;
  work.has_bias = in[kBias].present;
  work.short_bias = params.short_bias;
  work.long_bias = params.long_bias;
  work.finite_causal = params.finite_causal;
  work.same_rows = params.same_rows.value_or(0) != 0;
  work.bottom_right = params.bottom_right.value_or(0) != 0;
  if (work.has_bias) CTXGEN_CHECK(read_bias(op, in[kBias].dims, work));
  a.sizes.keys = CTXGEN_TRY(work.span_of(work.planned)).keys;
  if (!work.has_present && (work.packed || a.sizes.kv_heads > 1))
    a.sizes.spread = !work.k_heads_first   ? a.k_strides.row
                     : !work.v_heads_first ? a.v_strides.row
                                           : 0;
  return work;
}

/// The result's dims have q's form.
Dims result_dims(const AttentionWork& work, std::size_t rank) {
  const kernels::AttentionSizes& s = work.attend.sizes;
  if (rank == 4) return {s.images, s.heads, s.queries, s.value_size};
  return {s.images, s.queries, s.heads * s.value_size};
}

Result<ShapeOutputs> attention_shape(const ProgramOp& op, ShapeInputs in) {
  const AttentionWork work = CTXGEN_TRY(describe_attention(op, in));
  const kernels::AttentionSizes& s = work.attend.sizes;
  ShapeOutputs outputs{result_dims(work, in[kQ].dims.size())};
  if (work.has_present) {
    for (const std::int64_t size : {s.size, s.value_size})
      outputs.push_back({s.images, s.kv_heads, s.keys, cache_width(work, size)});
  }
  if (work.has_logits) outputs.push_back({s.images, s.heads, s.queries, s.keys});
  return outputs;
}

Status check_attention_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  const auto params = CTXGEN_TRY(decode<AttentionParams>(op));
  for (const std::size_t i : {kQ, kK, kV, kCos, kSin, kDistances})
    CTXGEN_CHECK(expect_type(program, op, input(i), {DataType::kFloat}));
  const DataType cache = params.cache_type();
  for (const std::size_t i : {kPastKey, kPastValue})
    CTXGEN_CHECK(expect_type(program, op, input(i), {cache}));
  CTXGEN_CHECK(expect_type(program, op, input(kLengths),
                           {params.lengths == "last" ? DataType::kInt32 : DataType::kInt64}));
  if (params.mask_value)
    CTXGEN_CHECK(expect_type(program, op, input(kBias),
                             {DataType::kInt32, DataType::kFloat, DataType::kBool}));
  else
    CTXGEN_CHECK(expect_type(program, op, input(kBias), {DataType::kFloat, DataType::kBool}));
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    CTXGEN_CHECK(expect_type(program, op, Operand::value(op.outputs[i]),
                             {i == 1 || i == 2 ? cache : DataType::kFloat}));
  return {};
}

/// A logit is a sum over a head's size, a result one over the keys.
std::int64_t attention_terms(const Program& program, const ProgramOp& op) {
  const std::size_t keys = op.inputs.size() > kPastKey ? std::size_t{kPastKey} : std::size_t{kK};
  const std::int64_t size = dim_from_back(program, op, kQ, 0);
  const std::int64_t rows = dim_from_back(program, op, keys, 1);
  if (size == kUnknownTerms || rows == kUnknownTerms) return kUnknownTerms;
  return std::clamp<std::int64_t>(size + rows, 1, kMostTerms);
}

Status build_attention(NodeBuilder& builder) {
  const ProgramOp& op = builder.op();
  const std::vector<ShapeInput> in = shape_inputs(builder, kInputs);
  AttentionWork work = CTXGEN_TRY(describe_attention(op, in));
  kernels::AttentionSizes& s = work.attend.sizes;
  if (work.has_bias) work.bias_type = builder.input(kBias).type;
  if (in[kQ].dims.size() == 4)
    work.attend.out_strides = {.image = s.heads * s.queries * s.value_size,
                               .head = s.queries * s.value_size,
                               .row = s.value_size};
  else
    work.attend.out_strides = {.image = s.queries * s.heads * s.value_size,
                               .head = s.value_size,
                               .row = s.heads * s.value_size};
  // A cache may grow for a while: few rows need a sum per 256 keys.
  constexpr std::int64_t kPlannedKeys = 4096;
  const std::uint64_t scratch =
      CTXGEN_TRY(work.scratch_bytes(work.has_present ? std::max(s.keys, kPlannedKeys) : s.keys));
  std::vector<Arg> args = builder.operand_args();
  args.push_back(numbers_arg(builder));
  args.push_back(scratch_arg());
  const double pairs = static_cast<double>(s.images * s.heads) * static_cast<double>(s.queries) *
                       static_cast<double>(s.keys);
  builder.add_kernel(
      "loop:attention", make_attention_kernel(std::move(work)), std::move(args),
      {.flops = 2 * pairs * static_cast<double>(s.size + s.value_size), .scratch_bytes = scratch});
  return {};
}

constexpr LengthRule::Axis kLengthInputs[] = {
    {kPastKey, 2}, {kPastValue, 2}, {kBias, -1}, {kK, -2, true}, {kV, -2, true}};
constexpr LengthRule::Axis kLengthOutputs[] = {{1, 2}, {2, 2}, {3, 3}};
constexpr LengthRule kLengthRule{
    .inputs = kLengthInputs, .code = "total", .outputs = kLengthOutputs, .caches = 2};
static_assert(sizeof(AttentionNumbers) == kRunNumbers * sizeof(std::int64_t));

}  // namespace

constinit const KindRow kAttentionRow{
    .name = kind::kAttention,
    .number = 41,
    .inputs = {1, kInputs},
    .traits = {.post_ops = false, .takes_empty = true},
    .types = check_attention_types,
    .shape = attention_shape,
    .terms = attention_terms,
    .place = place_dense,
    .build = build_attention,
    .lengths = &kLengthRule,
};

}  // namespace ctxgen::onednn
