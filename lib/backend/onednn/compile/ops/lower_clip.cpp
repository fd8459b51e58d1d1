#include <limits>
#include <utility>

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kHighest = std::numeric_limits<float>::max();

using Bounds = std::pair<float, float>;

Read<Bounds> in_order(float low, float high) {
  if (!(low <= high)) return refuse("min {} is above max {}", low, high);
  return Bounds{low, high};
}

/// Opsets 1 to 10: min and max are attributes.
Read<Bounds> read_attributes(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  return in_order(n.node().float_or("min", kLowest), n.node().float_or("max", kHighest));
}

/// From opset 11 on: min and max are optional inputs.
Read<Bounds> read_inputs(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const float low = n.has_input(1) ? CTXGEN_TRY(constant_scalar(n, 1, "min")) : kLowest;
  const float high = n.has_input(2) ? CTXGEN_TRY(constant_scalar(n, 2, "max")) : kHighest;
  return in_order(low, high);
}

Status lower_clip(const NodeView& n, ProgramBuilder& builder, const Read<Bounds>& read) {
  const auto [low, high] = CTXGEN_TRY(accepted(read, n));
  builder.add_eltwise(n, "clip", low, high, builder.operand(n.input(0)),
                      builder.value(n.output(0)));
  return {};
}

}  // namespace

Refusal check_clip_attributes(const NodeView& n) { return refusal_of(read_attributes(n)); }
Refusal check_clip_inputs(const NodeView& n) { return refusal_of(read_inputs(n)); }
Status lower_clip_attributes(const NodeView& n, ProgramBuilder& builder) {
  return lower_clip(n, builder, read_attributes(n));
}
Status lower_clip_inputs(const NodeView& n, ProgramBuilder& builder) {
  return lower_clip(n, builder, read_inputs(n));
}

}  // namespace ctxgen::onednn
