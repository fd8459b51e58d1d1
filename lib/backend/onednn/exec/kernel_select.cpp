#include <algorithm>
#include <utility>

#include "kernel_loops.h"
#include "kernels.h"
#include "point_rows.h"

namespace ctxgen::onednn {

// The forms that masks take have loops of their own, which the compiler vectorises.
#define CTXGEN_LOOP(at_c, at_a, at_b)                                                 \
  for (std::int64_t i = 0; i < n; ++i) out[i] = condition[at_c] != 0 ? a[at_a] : b[at_b]; \
  return

CTXGEN_SIMD_CLONES void select_row(std::int64_t n, const std::uint8_t* condition,
                                   std::int64_t c_step, const float* a, std::int64_t a_step,
                                   const float* b, std::int64_t b_step, float* out) {
  if (c_step == 1 && a_step == 1 && b_step == 1) {
    CTXGEN_LOOP(i, i, i);
  }
  if (c_step == 1 && a_step == 1 && b_step == 0) {
    CTXGEN_LOOP(i, i, 0);
  }
  if (c_step == 1 && a_step == 0 && b_step == 1) {
    CTXGEN_LOOP(i, 0, i);
  }
  CTXGEN_LOOP(i* c_step, i* a_step, i* b_step);
}
#undef CTXGEN_LOOP

namespace {

class SelectKernel final : public Kernel {
 public:
  explicit SelectKernel(std::vector<PointAxis> axes) : axes_(std::move(axes)) {
    inner_ = axes_.back();
    axes_.pop_back();
    for (const PointAxis& axis : axes_) outer_ *= axis.size;
    chunks_ = std::max<std::int64_t>(1, (inner_.size + kChunk - 1) / kChunk);
  }

  void run(std::byte* const* args) const override {
    parallel_for(outer_ * chunks_, outer_ * inner_.size, [&](std::int64_t job) {
      run_chunk(job / chunks_, job % chunks_, args);
    });
  }

 private:
  static constexpr std::int64_t kChunk = 16 * 1024;  // what one thread does at a time
  enum Tensor : std::size_t { kDst, kCondition, kA, kB };  // order of the strides

  /// The first element of a chunk in tensor `t`, in elements.
  [[nodiscard]] std::int64_t place(Tensor t, std::int64_t index, std::int64_t first) const {
    std::int64_t at = first * inner_.strides[t];
    for (std::size_t a = axes_.size(); a-- > 0;) {
      at += index % axes_[a].size * axes_[a].strides[t];
      index /= axes_[a].size;
    }
    return at;
  }

  void run_chunk(std::int64_t index, std::int64_t chunk, std::byte* const* args) const {
    const std::int64_t first = chunk * kChunk;
    const auto* condition = reinterpret_cast<const std::uint8_t*>(args[0]);
    const auto* a = reinterpret_cast<const float*>(args[1]);
    const auto* b = reinterpret_cast<const float*>(args[2]);
    auto* dst = reinterpret_cast<float*>(args[3]);
    select_row(std::min(kChunk, inner_.size - first), condition + place(kCondition, index, first),
               inner_.strides[kCondition], a + place(kA, index, first), inner_.strides[kA],
               b + place(kB, index, first), inner_.strides[kB], dst + place(kDst, index, first));
  }

  std::vector<PointAxis> axes_;
  PointAxis inner_;
  std::int64_t outer_ = 1;
  std::int64_t chunks_ = 1;
};

}  // namespace

std::shared_ptr<const Kernel> make_select_kernel(const Dims& dims, const Dims& condition_strides,
                                                 const Dims& a_strides, const Dims& b_strides,
                                                 const Dims& dst_strides) {
  return std::make_shared<SelectKernel>(
      collapse_points(dims, {&dst_strides, &condition_strides, &a_strides, &b_strides}));
}

}  // namespace ctxgen::onednn
