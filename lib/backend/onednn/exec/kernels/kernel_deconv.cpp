#include <algorithm>
#include <cstring>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"

namespace ctxgen::onednn {
namespace {

constexpr auto multiply_add =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* a, const float* b, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] += a[i] * b[i];
    });

/// Depthwise transposed convolution of channels-last tensors: each result gathers the taps that
/// reach it, so that no two threads write the same place.
class DeconvKernel final : public Kernel {
 public:
  DeconvKernel(const Dims& src, Window window, bool has_bias)
      : window_(std::move(window)), has_bias_(has_bias), batch_(src[0]), channels_(src[1]) {
    const std::size_t k = window_.kernel.size();
    for (std::size_t i = k; i < 3; ++i) {
      for (auto* list : {&window_.kernel, &window_.strides, &window_.dilations, &window_.out})
        list->insert(list->begin(), 1);
      window_.pad_begin.insert(window_.pad_begin.begin(), 0);
    }
    for (std::size_t i = 0; i < 3; ++i) in_[i] = i + k < 3 ? 1 : src[i + k - 1];
    pixels_ = window_.out[0] * window_.out[1] * window_.out[2];
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    const auto* weights = reinterpret_cast<const float*>(args[1]);
    auto* dst = reinterpret_cast<float*>(args[2]);
    const float* bias = has_bias_ ? reinterpret_cast<const float*>(args[3]) : nullptr;
    const std::int64_t taps = window_.kernel[0] * window_.kernel[1] * window_.kernel[2];
    const std::int64_t work = work_of(batch_ * pixels_ * channels_, taps);
    parallel_for(workers, batch_ * pixels_, work, [&](std::int64_t job) {
      float* out = dst + job * channels_;
      if (bias != nullptr)
        std::memcpy(out, bias, static_cast<std::size_t>(channels_) * sizeof(float));
      else
        std::fill_n(out, channels_, 0.0F);
      add_taps(src + job / pixels_ * in_[0] * in_[1] * in_[2] * channels_, weights, job % pixels_,
               out);
    });
    return {};
  }

 private:
  /// The source index whose tap `tap` lands on `position`, or -1.
  [[nodiscard]] std::int64_t source(std::size_t axis, std::int64_t position,
                                    std::int64_t tap) const {
    const std::int64_t at = position + window_.pad_begin[axis] - tap * window_.dilations[axis];
    if (at < 0 || at % window_.strides[axis] != 0) return -1;
    const std::int64_t index = at / window_.strides[axis];
    return index < in_[axis] ? index : -1;
  }

  void add_taps(const float* src, const float* weights, std::int64_t pixel, float* out) const {
    const std::int64_t d = pixel / (window_.out[1] * window_.out[2]);
    const std::int64_t h = pixel / window_.out[2] % window_.out[1];
    const std::int64_t w = pixel % window_.out[2];
    for (std::int64_t a = 0; a < window_.kernel[0]; ++a) {
      const std::int64_t z = source(0, d, a);
      if (z < 0) continue;
      for (std::int64_t b = 0; b < window_.kernel[1]; ++b) {
        const std::int64_t y = source(1, h, b);
        if (y < 0) continue;
        for (std::int64_t c = 0; c < window_.kernel[2]; ++c) {
          const std::int64_t x = source(2, w, c);
          if (x < 0) continue;
          const std::int64_t tap = (a * window_.kernel[1] + b) * window_.kernel[2] + c;
          multiply_add(channels_, src + ((z * in_[1] + y) * in_[2] + x) * channels_,
                       weights + tap * channels_, out);
        }
      }
    }
  }

  Window window_;
  bool has_bias_;
  std::int64_t batch_, channels_;
  std::int64_t in_[3] = {1, 1, 1};
  std::int64_t pixels_ = 1;
};

}  // namespace

std::shared_ptr<const Kernel> make_deconv_kernel(const Dims& src, const Window& window,
                                                 bool has_bias) {
  return std::make_shared<DeconvKernel>(src, window, has_bias);
}

}  // namespace ctxgen::onednn
