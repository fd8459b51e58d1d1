#include "kernels/kernel_product.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/kernel_loops.h"
#include "kernels/point_rows.h"

namespace ctxgen::onednn {

namespace {

using kernels::ProductPart;

constexpr std::int64_t kChainElements = 2048;  // a chain works on what stays in the first cache

/// Of each group: enough for threads to end at about the same time.
std::int64_t wanted_parts(int threads, std::int64_t groups) {
  constexpr std::int64_t kPartsPerThread = 8;
  return threads <= 1 ? 1 : std::max<std::int64_t>(1, threads * kPartsPerThread / groups);
}

class ProductKernel final : public Kernel {
 public:
  ProductKernel(ProductForm form, int threads)
      : form_(std::move(form)),
        parts_(kernels::product_parts(form_.product.windows, form_.product.matrix,
                                      wanted_parts(threads, form_.groups))),
        through_rows_(goes_through_rows()) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::PanelProduct product = form_.product;
    std::size_t next = 3;
    product.src = reinterpret_cast<const float*>(args[0]);
    product.matrix.panels = args[1];
    product.result = reinterpret_cast<float*>(args[2]);
    if (form_.has_bias) product.finish.bias = reinterpret_cast<const float*>(args[next++]);
    if (form_.has_start) product.finish.start = reinterpret_cast<const float*>(args[next++]);
    const std::int64_t work =
        work_of(work_of(parts_.rows, form_.product.result_pitch), product.windows.depth());
    parallel_for(workers, form_.groups * parts_.count(), work, [&](std::int64_t index) {
      const std::int64_t group = index / parts_.count();
      ProductPart part = parts_.part(index % parts_.count());
      kernels::multiply_panels(of_group(product, group), part);
      part.column += group * parts_.columns;
      if (!form_.stages.empty()) apply(part, product.result, args + next);
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

  /// Whether the stages may take a part's rows as one, where it holds all columns.
  [[nodiscard]] bool goes_through_rows() const {
    const std::int64_t columns = parts_.columns;
    return parts_.part_columns >= columns && form_.product.result_pitch == columns &&
           std::ranges::all_of(form_.stages, [&](const PartStage& stage) {
             return !takes_operand(stage.op) || stage.row_stride == columns * stage.column_stride;
           });
  }

  void apply(const ProductPart& part, float* result, std::byte* const* operands) const {
    const std::int64_t pitch = form_.product.result_pitch;
    if (through_rows_) {
      const std::int64_t end = (part.row + part.rows) * pitch;
      for (std::int64_t at = part.row * pitch; at < end; at += kChainElements)
        apply_run({at, std::min(kChainElements, end - at)}, 0, result, operands);
      return;
    }
    for (std::int64_t row = part.row; row < part.row + part.rows; ++row)
      apply_run({part.column, part.columns}, row, result + row * pitch, operands);
  }

  struct Run {
    std::int64_t column, count;
  };
  /// The chain over elements of a row; `out` is the row's first element.
  void apply_run(Run run, std::int64_t row, float* out, std::byte* const* operands) const {
    float* x = out + run.column;
    for (const PartStage& stage : form_.stages) {
      if (!takes_operand(stage.op)) {
        unary_row(stage.op, stage.alpha, stage.beta, run.count, x, x);
        continue;
      }
      const float* operand = reinterpret_cast<const float*>(*operands++) + row * stage.row_stride +
                             run.column * stage.column_stride;
      if (stage.column_stride == 1)
        binary_row(stage.op, run.count, x, operand, x);
      else
        binary_row_strided(stage.op, run.count, x, operand, stage.column_stride, x);
    }
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
