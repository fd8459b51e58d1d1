#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace ctxgen::onednn {

// What the f32 chain and the typed chain share: loops over a row, and the walk over rows.

/// out[i] = op(in[i]); `out` may be `in`.
void unary_row(PointOp op, float alpha, float beta, std::int64_t n, const float* in, float* out);
/// out[i] = in[i] <op> operand[i].
void binary_row(PointOp op, std::int64_t n, const float* in, const float* operand, float* out);
/// The same with an operand whose elements are `stride` apart, 0: one for all.
void binary_row_strided(PointOp op, std::int64_t n, const float* in, const float* operand,
                        std::int64_t stride, float* out);

struct PointAxis {
  std::int64_t size = 1;
  std::vector<std::int64_t> strides;  // dst, src, then operands
};

/// The dims in order of dst strides, those of size 1 dropped, neighbours merged where all tensors
/// run through them without a gap. `strides`: dst, src, operands.
[[nodiscard]] std::vector<PointAxis> collapse_points(const Dims& dims,
                                                     const std::vector<const Dims*>& strides);

/// Collapsed axes as jobs for parallel_for(): each a part of one row along the innermost axis.
class PointWalk {
 public:
  /// `axes` of collapse_points(), `chunk`: most elements of a job.
  PointWalk(std::vector<PointAxis> axes, std::int64_t chunk);

  [[nodiscard]] std::int64_t jobs() const { return outer_ * chunks_; }
  [[nodiscard]] std::int64_t elements() const { return outer_ * inner_.size; }
  /// dst, src and operands, in the order of PointAxis::strides.
  [[nodiscard]] std::size_t tensors() const { return inner_.strides.size(); }
  /// How far apart the elements of a row of tensor `t` are.
  [[nodiscard]] std::int64_t step(std::size_t t) const { return inner_.strides[t]; }
  /// The number of a job's elements; `at` receives where it begins in each tensor, in elements.
  [[nodiscard]] std::int64_t place(std::int64_t job, std::span<std::int64_t> at) const;

 private:
  std::vector<PointAxis> axes_;  // but for the innermost
  PointAxis inner_;
  std::int64_t chunk_, outer_ = 1, chunks_ = 1;
};

}  // namespace ctxgen::onednn
