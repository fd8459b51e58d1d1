#include <algorithm>
#include <cmath>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/recurrent/kernels_recurrence.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Linear attention and causal convolutions: a state of one size goes in and comes out, by our own kernels.
namespace ctxgen::onednn {

namespace {

Status expect_input(const ProgramOp& op, ShapeInputs in, std::size_t i, const Dims& expected) {
  if (in[i].dims == expected) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}, expected {}", label(op), i,
              to_string(in[i].dims), to_string(expected));
}

std::vector<ShapeInput> padded(ShapeInputs given, std::size_t count) {
  std::vector<ShapeInput> in(given.begin(), given.end());
  in.resize(count);
  return in;
}

/// With scratch, if the kernel works in some.
std::vector<Arg> arguments_of(const NodeBuilder& builder, bool scratch) {
  std::vector<Arg> args = builder.operand_args();
  if (scratch) args.push_back(scratch_arg());
  return args;
}

// ---- linear_attention ----

enum LinearInput : std::size_t { kQ, kK, kV, kPast, kDecay, kRate, kLinearInputs };

Status read_gates(const ProgramOp& op, ShapeInputs in, LinearAttentionWork& work) {
  kernels::LinearAttention& a = work.attend;
  work.has_decay = in[kDecay].present;
  work.has_rate = in[kRate].present;
  if (work.has_decay) {
    const Dims& dims = in[kDecay].dims;
    a.decays = !dims.empty() && dims.back() == a.states ? 1 : a.size;
    CTXGEN_CHECK(expect_input(op, in, kDecay, {a.images, a.steps, a.states * a.decays}));
  }
  if (work.has_rate) {
    const Dims& dims = in[kRate].dims;
    a.rates = !dims.empty() && dims.back() == 1 ? 1 : a.states;
    CTXGEN_CHECK(expect_input(op, in, kRate, {a.images, a.steps, a.rates}));
  }
  return {};
}

Result<LinearAttentionWork> describe_linear(const ProgramOp& op, ShapeInputs given) {
  const auto in = padded(given, kLinearInputs);
  const auto params = CTXGEN_TRY(decode<LinearAttentionParams>(op));
  constexpr std::int64_t kMostHeads = std::int64_t{1} << 20U;
  const std::int64_t least = std::min(params.heads, params.states);
  const std::int64_t most = std::max(params.heads, params.states);
  if (least < 1 || most > kMostHeads || most % least != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} heads, {} states", label(op), params.heads,
                params.states);
  for (const std::size_t i : {kQ, kK, kV})
    if (in[i].dims.size() != 3 || in[i].dims[2] > kMaxParam)
      return fail(ErrorCode::kInvalidGraph, "{}: input {} is {}", label(op), std::size_t{i},
                  to_string(in[i].dims));
  LinearAttentionWork work;
  kernels::LinearAttention& a = work.attend;
  a.images = in[kQ].dims[0];
  a.steps = in[kQ].dims[1];
  a.q_heads = params.heads;
  a.states = params.states;
  a.size = in[kQ].dims[2] / params.heads;
  a.width = in[kV].dims[2] / params.states;
  a.k_heads = a.size == 0 ? a.states : in[kK].dims[2] / a.size;
  if (a.k_heads < 1 || a.states % a.k_heads != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: keys {} for {} states of {}", label(op),
                to_string(in[kK].dims), a.states, a.size);
  CTXGEN_CHECK(expect_input(op, in, kQ, {a.images, a.steps, a.q_heads * a.size}));
  CTXGEN_CHECK(expect_input(op, in, kK, {a.images, a.steps, a.k_heads * a.size}));
  CTXGEN_CHECK(expect_input(op, in, kV, {a.images, a.steps, a.states * a.width}));
  work.has_past = in[kPast].present;
  if (work.has_past)
    CTXGEN_CHECK(expect_input(op, in, kPast, {a.images, a.states, a.size, a.width}));
  CTXGEN_CHECK(read_gates(op, in, work));
  a.scale = static_cast<float>(
      params.scale != 0 ? params.scale
                        : 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(a.size, 1))));
  return work;
}

Result<ShapeOutputs> linear_shape(const ProgramOp& op, ShapeInputs in) {
  const LinearAttentionWork work = CTXGEN_TRY(describe_linear(op, in));
  const kernels::LinearAttention& a = work.attend;
  if (op.outputs.size() != 2)
    return fail(ErrorCode::kInvalidGraph, "{}: {} results", label(op), op.outputs.size());
  return ShapeOutputs{{a.images, a.steps, a.outputs() * a.width},
                      {a.images, a.states, a.size, a.width}};
}

/// A result is a sum over a head's size; a state sums up all steps.
std::int64_t linear_terms(const Program& program, const ProgramOp& op) {
  const std::int64_t size = dim_from_back(program, op, kQ, 0);
  const std::int64_t steps = dim_from_back(program, op, kQ, 1);
  if (size == kUnknownTerms || steps == kUnknownTerms) return kUnknownTerms;
  return std::clamp<std::int64_t>(size + std::min(steps, kMostTerms / 4) * 4, 1, kMostTerms);
}

Status build_linear(NodeBuilder& builder) {
  const LinearAttentionWork work =
      CTXGEN_TRY(describe_linear(builder.op(), shape_inputs(builder, kLinearInputs)));
  const kernels::LinearAttention& a = work.attend;
  const auto scratch = static_cast<std::uint64_t>(work.decay_count()) * sizeof(float);
  const double elements =
      static_cast<double>(a.images * a.states) * static_cast<double>(a.size * a.width);
  builder.add_kernel(
      "loop:linear_attention", make_linear_attention_kernel(work),
      arguments_of(builder, work.has_decay),
      {.flops = 7 * elements * static_cast<double>(a.steps), .scratch_bytes = scratch});
  return {};
}

// ---- causal_conv ----

enum ConvInput : std::size_t { kX, kWeights, kBias, kState, kConvInputs };

Result<CausalConvWork> describe_causal(const ProgramOp& op, ShapeInputs given) {
  const auto in = padded(given, kConvInputs);
  const auto params = CTXGEN_TRY(decode<CausalConvParams>(op));
  const Dims &x = in[kX].dims, &weights = in[kWeights].dims;
  if (x.size() != 3 || weights.size() != 3 || weights[2] < 1 || weights[2] > kMaxParam ||
      x[1] > kMaxParam || x[2] > kMaxParam)
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, weights {}", label(op), to_string(x),
                to_string(weights));
  CausalConvWork work;
  work.images = x[0];
  work.conv.channels = x[1];
  work.conv.length = x[2];
  work.conv.taps = weights[2];
  work.conv.swish = params.swish;
  work.has_bias = in[kBias].present;
  work.has_past = in[kState].present;
  CTXGEN_CHECK(expect_input(op, in, kWeights, {x[1], 1, weights[2]}));
  if (work.has_bias) CTXGEN_CHECK(expect_input(op, in, kBias, {x[1]}));
  if (work.has_past) CTXGEN_CHECK(expect_input(op, in, kState, {x[0], x[1], work.conv.before()}));
  return work;
}

Result<ShapeOutputs> causal_shape(const ProgramOp& op, ShapeInputs in) {
  const CausalConvWork work = CTXGEN_TRY(describe_causal(op, in));
  if (op.outputs.size() != 2)
    return fail(ErrorCode::kInvalidGraph, "{}: {} results", label(op), op.outputs.size());
  return ShapeOutputs{in[kX].dims, {work.images, work.conv.channels, work.conv.before()}};
}

std::int64_t causal_terms(const Program& program, const ProgramOp& op) {
  const std::int64_t taps = dim_from_back(program, op, kWeights, 0);
  return taps == kUnknownTerms ? kUnknownTerms : std::clamp<std::int64_t>(taps, 1, kMostTerms);
}

Status build_causal(NodeBuilder& builder) {
  const CausalConvWork work =
      CTXGEN_TRY(describe_causal(builder.op(), shape_inputs(builder, kConvInputs)));
  if (work.scratch_bytes() > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} bytes to work in", label(builder.op()),
                work.scratch_bytes());
  const double elements =
      static_cast<double>(work.images * work.conv.channels) * static_cast<double>(work.conv.length);
  builder.add_kernel("loop:causal_conv", make_causal_conv_kernel(work), arguments_of(builder, true),
                     {.flops = 2 * elements * static_cast<double>(work.conv.taps),
                      .scratch_bytes = work.scratch_bytes()});
  return {};
}

}  // namespace

constinit const KindRow kLinearAttentionRow{
    .name = kind::kLinearAttention,
    .number = 44,
    .inputs = {3, kLinearInputs},
    .traits = {.post_ops = false, .takes_empty = true},
    .types = check_f32_types,
    .shape = linear_shape,
    .terms = linear_terms,
    .place = place_dense,
    .build = build_linear,
};

constinit const KindRow kCausalConvRow{
    .name = kind::kCausalConv,
    .number = 45,
    .inputs = {2, kConvInputs},
    .traits = {.post_ops = false, .takes_empty = true},
    .types = check_f32_types,
    .shape = causal_shape,
    .terms = causal_terms,
    .place = place_dense,
    .build = build_causal,
};

}  // namespace ctxgen::onednn
