#include "kernels/kernel_product.h"

#include <algorithm>
#include <utility>

#include "kernels/kernel_loops.h"

namespace ctxgen::onednn {

namespace {

using kernels::ProductPart;

class ProductKernel final : public Kernel {
 public:
  ProductKernel(ProductForm form, int threads)
      : form_(std::move(form)),
        parts_(kernels::parts_of_team(form_.product.windows, form_.product.matrix, threads,
                                      form_.groups)),
        through_rows_(parts_.part_columns >= parts_.columns &&
                      goes_through_rows(form_.finish, parts_.columns)) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::PanelProduct product = form_.product;
    std::size_t next = 3;
    product.src = reinterpret_cast<const float*>(args[0]);
    product.matrix.panels = args[1];
    product.result = reinterpret_cast<float*>(args[2]);
    product.finish = finish_of(form_.finish, args, next);
    // So many products take as long as an element of a loop: half a million of them 5 to 10 us, as long as a team's start.
    constexpr std::int64_t kProductsOfElement = 16;
    const std::int64_t work =
        work_of(work_of(parts_.rows, form_.finish.pitch), product.windows.depth()) /
        kProductsOfElement;
    parallel_for(workers, form_.groups * parts_.count(), work, [&](std::int64_t index) {
      const auto [group, at] = parts_.part_of_groups(index, form_.groups);
      ProductPart part = parts_.part(at);
      kernels::multiply_panels(of_group(product, group), part);
      part.column += group * parts_.columns;
      if (!form_.finish.stages.empty())
        apply_stages(form_.finish, part, through_rows_, product.result, args + next);
    });
    return {};
  }

 private:
  [[nodiscard]] kernels::PanelProduct of_group(kernels::PanelProduct product,
                                               std::int64_t group) const {
    if (group == 0) return product;
    const std::int64_t panels = (parts_.columns + product.matrix.block - 1) / product.matrix.block;
    const std::int64_t column = group * parts_.columns;
    product.src += group * product.windows.channels;
    const std::int64_t bytes = product.matrix.type == kernels::PanelType::kFloat ? 4 : 2;
    product.matrix.panels += group * panels * product.matrix.panel_elements * bytes;
    product.result += column;
    if (product.finish.bias != nullptr) product.finish.bias += column;
    if (product.finish.start != nullptr) product.finish.start += column;
    return product;
  }

  ProductForm form_;
  kernels::ProductParts parts_;
  bool through_rows_;
};

}  // namespace

std::shared_ptr<const Kernel> make_product_kernel(ProductForm form, int threads) {
  return std::make_shared<const ProductKernel>(std::move(form), threads);
}

}  // namespace ctxgen::onednn
