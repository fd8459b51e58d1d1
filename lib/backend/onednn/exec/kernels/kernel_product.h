#pragma once

#include <memory>
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

struct ProductForm {
  kernels::PanelProduct product;  // of each group; its addresses are not read
  std::int64_t groups = 1;        // next to each other in the source's channels, panels and columns
  bool has_bias = false;
  bool has_start = false;
  std::vector<PartStage> stages;  // at most kMostPartStages
};
inline constexpr std::size_t kMostPartStages = 16;

/// result = stages(product). Args: src, panels, result; the bias and the start where there is one;
/// the operands of the stages that take one, in order. Start and result may be the same.
/// `threads`: how many workers there will be; the result does not depend on it.
[[nodiscard]] std::shared_ptr<const Kernel> make_product_kernel(ProductForm form, int threads);

}  // namespace ctxgen::onednn
