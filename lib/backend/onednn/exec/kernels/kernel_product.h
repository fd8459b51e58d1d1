#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "ctxgen/kernels/product.h"

#include "kernels/kernels.h"
#include "kernels/part_finish.h"

namespace ctxgen::onednn {

struct ProductForm {
  kernels::PanelProduct product;  // of each group; its addresses and finish are not read
  std::int64_t groups = 1;        // next to each other in the source's channels, panels and columns
  PartFinish finish;
};

/// result = stages(product). Args: src, panels, result; the bias and the start where there is one;
/// the operands of the stages that take one, in order. Start and result may be the same.
/// `threads`: how many workers there will be; the result does not depend on it.
[[nodiscard]] std::shared_ptr<const Kernel> make_product_kernel(ProductForm form, int threads);

/// Bytes of scratch of a kernel for `threads` workers; nothing if there are too many. Requires what
/// kernels::multiply_winograd() does, one group.
[[nodiscard]] std::optional<std::uint64_t> winograd_scratch(const ProductForm& form, int threads);

/// The same by kernels::multiply_winograd(). Args: as of make_product_kernel(), with the scratch after the result.
[[nodiscard]] std::shared_ptr<const Kernel> make_winograd_kernel(ProductForm form, int threads,
                                                                 std::uint64_t scratch);

}  // namespace ctxgen::onednn
