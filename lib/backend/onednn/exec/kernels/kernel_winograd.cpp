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

kernels::WinogradParts parts_of(const ProductForm& form, int threads) {
  return kernels::winograd_parts(form.product.windows, form.product.matrix, threads);
}

/// Threads that parts are computed in at a time.
std::int64_t places_of(const kernels::WinogradParts& parts, int threads) {
  return std::clamp<std::int64_t>(parts.count(), 1, std::max(threads, 1));
}

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(ProductForm form, int threads, std::uint64_t scratch)
      : form_(std::move(form)),
        parts_(parts_of(form_, threads)),
        places_(places_of(parts_, threads)),
        floats_(static_cast<std::int64_t>(scratch / sizeof(float)) / places_),
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
        kernels::multiply_winograd(product, parts_, index, scratch + place * floats_);
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
  const kernels::WinogradParts parts = parts_of(form, threads);
  const auto bytes = kernels::winograd_scratch_bytes(parts, form.product.matrix);
  const auto places = static_cast<std::uint64_t>(places_of(parts, threads));
  if (!bytes || *bytes > kMaxTensorBytes / places) return std::nullopt;
  return align_up(*bytes, kPlaceAlignment) * places;
}

std::shared_ptr<const Kernel> make_winograd_kernel(ProductForm form, int threads,
                                                   std::uint64_t scratch) {
  return std::make_shared<const WinogradKernel>(std::move(form), threads, scratch);
}

}  // namespace ctxgen::onednn
