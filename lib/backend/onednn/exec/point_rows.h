#pragma once

#include <cstdint>
#include <vector>

#include "kernels.h"

namespace ctxgen::onednn {

// What the f32 chain and the typed chain share: loops over a row, and the walk over rows.

/// out[i] = op(in[i]); `out` may be `in`.
void unary_row(PointOp op, float alpha, float beta, std::int64_t n, const float* in, float* out);
/// out[i] = in[i] <op> operand[i].
void binary_row(PointOp op, std::int64_t n, const float* in, const float* operand, float* out);

struct PointAxis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;  // dst, src, then operands
};

/// The dims in order of dst strides, those of size 1 dropped, neighbours merged where all tensors
/// run through them without a gap. `strides`: dst, src, operands.
[[nodiscard]] std::vector<PointAxis> collapse_points(const Dims& dims,
                                                     const std::vector<const Dims*>& strides);

}  // namespace ctxgen::onednn
