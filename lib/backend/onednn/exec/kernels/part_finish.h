#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "ctxgen/kernels/product.h"

#include "kernels/kernels.h"

namespace ctxgen::onednn {

/// A post-op of a product over a part of its result, as PointStage.
struct PartStage {
  PointOp op = PointOp::kAdd;
  float alpha = 0;
  float beta = 0;
  std::int64_t row_stride = 0;  // of the operand, over the result's rows and columns
  std::int64_t column_stride = 0;
};
inline constexpr std::size_t kMostPartStages = 16;

/// What becomes of sums while a part of the result is in a cache: rows are pixels, columns channels.
struct PartFinish {
  bool has_bias = false;
  bool has_start = false;
  std::int64_t start_pitch = 0;
  std::int64_t pitch = 0;  // floats from a row of the result to the next one
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  std::vector<PartStage> stages;  // at most kMostPartStages
};

/// With the addresses of bias and start, which are arguments from `next` on; `next` goes past them.
[[nodiscard]] kernels::Finish finish_of(const PartFinish& form, std::byte* const* args,
                                        std::size_t& next);

/// The stages over a part; `operands`: the arguments of those that take one, in order. `through_rows`: of
/// goes_through_rows(), where the part has all columns.
void apply_stages(const PartFinish& form, const kernels::ProductPart& part, bool through_rows,
                  float* result, std::byte* const* operands);

/// Whether the stages may take rows of all `columns` as one.
[[nodiscard]] bool goes_through_rows(const PartFinish& form, std::int64_t columns);

}  // namespace ctxgen::onednn
