#pragma once

#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

namespace ctxgen::cpu {

[[nodiscard]] inline auto outside(std::int64_t index, std::int64_t extent) {
  return fail(ErrorCode::kInvalidGraph, "index {} is outside of {}", index, extent);
}

/// Values of an index tensor with negative ones counted from the end.
/// Errors  INVALID_GRAPH where one is outside of [-extent, extent).
[[nodiscard]] inline Result<ScratchVector<std::int64_t>> checked_indices(const Tensor& tensor,
                                                                         std::int64_t extent) {
  auto indices = CTXGEN_TRY(ints_of(tensor));
  for (std::int64_t& index : indices) {
    if (index < -extent || index >= extent) return outside(index, extent);
    if (index < 0) index += extent;
  }
  return indices;
}

}  // namespace ctxgen::cpu
