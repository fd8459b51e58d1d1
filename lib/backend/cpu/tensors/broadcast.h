#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "ctxgen/base/tensor.h"

// NumPy-style broadcasting for every kernel that combines tensors element by element.

namespace ctxgen::cpu {

inline constexpr std::size_t kMaxBroadcastInputs = 3;

/// Loops over the output, neighbours merged where all inputs allow it: equal shapes and scalars are
/// one row, a suffix two loops. The last loop is a row, in which an input advances by 0 or 1.
struct BroadcastPlan {
  Dims dims;  // of the output
  std::size_t loops = 0;
  std::array<std::int64_t, kMaxRank> extent{};
  std::array<std::array<std::int64_t, kMaxBroadcastInputs>, kMaxRank> stride{};
  [[nodiscard]] std::int64_t row_length() const { return loops == 0 ? 1 : extent[loops - 1]; }
  [[nodiscard]] std::int64_t row_stride(std::size_t input) const {
    return loops == 0 ? 0 : stride[loops - 1][input];
  }
};

/// Errors  INVALID_GRAPH where dims neither agree nor are 1.
[[nodiscard]] Result<Dims> broadcast_dims(const Dims& a, const Dims& b);
[[nodiscard]] Result<BroadcastPlan> plan_broadcast(std::initializer_list<const Dims*> inputs);

/// Calls row(offsets of the inputs, offset of the output) for each row, in order of the output.
template <class F>
void for_each_row(const BroadcastPlan& plan, F&& row) {
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < plan.loops; ++i) rows *= plan.extent[i];
  const std::int64_t length = plan.row_length();
  if (length == 0) return;
  std::array<std::int64_t, kMaxBroadcastInputs> offset{};
  std::array<std::int64_t, kMaxRank> position{};
  for (std::int64_t r = 0; r < rows; ++r) {
    row(offset, r * length);
    for (std::size_t i = plan.loops < 2 ? 0 : plan.loops - 1; i-- > 0;) {
      for (std::size_t k = 0; k < kMaxBroadcastInputs; ++k) offset[k] += plan.stride[i][k];
      if (++position[i] < plan.extent[i]) break;
      for (std::size_t k = 0; k < kMaxBroadcastInputs; ++k)
        offset[k] -= plan.stride[i][k] * plan.extent[i];
      position[i] = 0;
    }
  }
}

/// out[i] = f(a[i], b[i]) along one row; strides are 0 or 1. Three loops, so that each vectorises.
template <class A, class B, class R, class F>
void combine_row(const A* a, std::int64_t a_stride, const B* b, std::int64_t b_stride, R* out,
                 std::int64_t count, F f) {
  if (a_stride != 0 && b_stride != 0) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], b[i]);
  } else if (a_stride != 0) {
    const B y = *b;
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(a[i], y);
  } else {
    const A x = *a;
    for (std::int64_t i = 0; i < count; ++i) out[i] = f(x, b[i * b_stride]);
  }
}

}  // namespace ctxgen::cpu
