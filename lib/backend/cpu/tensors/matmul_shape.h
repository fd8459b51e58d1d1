#pragma once

#include "kernel/function_kernel.h"
#include "tensors/broadcast.h"

namespace ctxgen::cpu {

/// NumPy's matmul: vectors become matrices, leading axes broadcast.
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  BroadcastPlan batches;  // inputs: matrices of A and of B; one row per run of batches
  Dims output;
};
/// Errors  INVALID_GRAPH.
[[nodiscard]] Result<MatmulShape> matmul_shape(const Dims& a, const Dims& b);

/// Calls f(index of A's matrix, index of B's, index of the output's) for every product.
template <class F>
void for_each_matrix(const MatmulShape& shape, F f) {
  for_each_row(shape.batches, [&](const auto& offset, std::int64_t out) {
    for (std::int64_t i = 0; i < shape.batches.row_length(); ++i)
      f(offset[0] + i * shape.batches.row_stride(0), offset[1] + i * shape.batches.row_stride(1),
        out + i);
  });
}

}  // namespace ctxgen::cpu
