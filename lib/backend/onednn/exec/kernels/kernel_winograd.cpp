#include <algorithm>
#include <atomic>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/kernels/winograd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernel_product.h"

namespace ctxgen::onednn {

namespace {

constexpr std::uint64_t kPlaceAlignment = 64;

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(ProductForm form, int threads, std::int64_t floats)
      : form_(std::move(form)),
        parts_(kernels::winograd_parts(form_.product.windows, form_.product.matrix, threads)),
        places_(std::min<std::int64_t>(threads, parts_.count())),
        floats_(floats),
        through_rows_(parts_.part_columns >= parts_.columns &&
                      goes_through_rows(form_.finish, parts_.columns)) {}

  /// Each place has scratch of its own, and takes parts until none is left.
  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::PanelProduct product = form_.product;
    std::size_t next = 4;
    product.src = reinterpret_cast<const float*>(args[0]);
    product.matrix.panels = args[1];
    product.result = reinterpret_cast<float*>(args[2]);
    auto* const scratch = reinterpret_cast<float*>(args[3]);
    product.finish = finish_of(form_.finish, args, next);
    std::atomic<std::int64_t> taken = 0;
    const kernels::Windows& windows = product.windows;
    const std::int64_t work = work_of(work_of(windows.rows(), form_.finish.pitch), windows.depth());
    parallel_for(workers, places_, work, [&](std::int64_t place) {
      for (;;) {
        const std::int64_t index = taken.fetch_add(1, std::memory_order_relaxed);
        if (index >= parts_.count()) return;
        const kernels::ProductPart part = parts_.part(index);
        kernels::multiply_winograd(product, part, scratch + place * floats_);
        if (!form_.finish.stages.empty())
          apply_stages(form_.finish, part, through_rows_, product.result, args + next);
      }
    });
    return {};
  }

 private:
  ProductForm form_;
  kernels::WinogradParts parts_;
  std::int64_t places_;
  std::int64_t floats_;  // of a place's scratch
  bool through_rows_;
};

}  // namespace

std::optional<std::uint64_t> winograd_scratch(const ProductForm& form, int threads) {
  const auto bytes = kernels::winograd_scratch_bytes(form.product.windows, form.product.matrix);
  if (!bytes || *bytes > kMaxTensorBytes / static_cast<std::uint64_t>(threads)) return std::nullopt;
  return align_up(*bytes, kPlaceAlignment) * static_cast<std::uint64_t>(threads);
}

std::shared_ptr<const Kernel> make_winograd_kernel(ProductForm form, int threads,
                                                   std::uint64_t scratch) {
  const auto floats =
      static_cast<std::int64_t>(scratch / static_cast<std::uint64_t>(threads) / sizeof(float));
  return std::make_shared<const WinogradKernel>(std::move(form), threads, floats);
}

}  // namespace ctxgen::onednn
