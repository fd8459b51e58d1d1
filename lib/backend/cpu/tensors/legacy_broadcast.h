#pragma once

#include "kernel/function_kernel.h"

// Broadcasting before opset 7: `broadcast=1` aligns B with A from `axis` on (a suffix without axis).

namespace ctxgen::cpu {

struct LegacyBroadcast {
  bool align = false;
  std::int64_t axis = 0;
};

[[nodiscard]] inline LegacyBroadcast legacy_broadcast(const Node& node) {
  const bool align =
      node.opset < 7 && node.int_or("broadcast", 0) != 0 && node.attribute("axis") != nullptr;
  return {align, node.int_or("axis", 0)};
}

/// B's dims, with ones after them that move it to its axis.
[[nodiscard]] inline Result<Dims> aligned_dims(const LegacyBroadcast& legacy, const Dims& a,
                                               const Dims& b) {
  Dims dims = b;
  if (!legacy.align) return dims;
  const std::size_t axis = CTXGEN_TRY(normalize_axis(legacy.axis, a.size()));
  if (axis + b.size() > a.size())
    return fail(ErrorCode::kInvalidGraph, "shape {} does not fit into {} at axis {}", to_string(b),
                to_string(a), axis);
  while (axis + dims.size() < a.size()) dims.push_back(1);
  return dims;
}

}  // namespace ctxgen::cpu
