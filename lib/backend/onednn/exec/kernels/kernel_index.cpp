#include <bit>
#include <utility>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_move.h"

namespace ctxgen::onednn {
namespace {

constexpr auto blend = simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* a, float wa,
                                                     const float* b, float wb, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = a[i] * wa + b[i] * wb;
});
constexpr auto blend_more = simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* a, float wa,
                                                          const float* b, float wb, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] += a[i] * wa + b[i] * wb;
});

class LinearKernel final : public Kernel {
 public:
  LinearKernel(const Dims& src, const Dims& dst, const std::vector<std::vector<LinearTap>>& taps)
      : batch_(src[0]), channels_(src[1]) {
    const std::size_t skip = 5 - src.size();
    for (std::size_t i = 0; i < 3; ++i) {
      taps_[i] = {LinearTap{}};
      if (i < skip) continue;
      taps_[i] = taps[i - skip + 2];
      in_[i] = src[i - skip + 2];
      out_[i] = dst[i - skip + 2];
    }
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    const std::int64_t rows = batch_ * out_[0] * out_[1];
    parallel_for(workers, rows, rows * out_[2] * channels_, [&](std::int64_t row) {
      const std::int64_t image = row / (out_[0] * out_[1]);
      run_row(src + image * in_[0] * in_[1] * in_[2] * channels_,
              taps_[0][static_cast<std::size_t>(row / out_[1] % out_[0])],
              taps_[1][static_cast<std::size_t>(row % out_[1])], dst + row * out_[2] * channels_);
    });
    return {};
  }

 private:
  void run_row(const float* src, const LinearTap& d, const LinearTap& h, float* dst) const {
    struct Line {
      const float* at;
      float weight;
    };
    Line lines[4];
    std::size_t count = 0;
    for (const bool deep : {false, true})
      for (const bool low : {false, true}) {
        const float weight = (deep ? d.weight : 1 - d.weight) * (low ? h.weight : 1 - h.weight);
        const std::int64_t row = (deep ? d.second : d.first) * in_[1] + (low ? h.second : h.first);
        if (weight != 0.0F) lines[count++] = {src + row * in_[2] * channels_, weight};
      }
    for (std::int64_t x = 0; x < out_[2]; ++x) {
      const LinearTap& w = taps_[2][static_cast<std::size_t>(x)];
      float* out = dst + x * channels_;
      for (std::size_t i = 0; i < count; ++i) {
        const float* a = lines[i].at + w.first * channels_;
        const float* b = lines[i].at + w.second * channels_;
        const float wa = lines[i].weight * (1 - w.weight), wb = lines[i].weight * w.weight;
        if (i == 0)
          blend(channels_, a, wa, b, wb, out);
        else
          blend_more(channels_, a, wa, b, wb, out);
      }
    }
  }

  std::int64_t batch_, channels_;
  std::int64_t in_[3] = {1, 1, 1}, out_[3] = {1, 1, 1};
  std::vector<LinearTap> taps_[3];
};

}  // namespace

std::shared_ptr<const Kernel> make_index_kernel(const std::vector<AxisMap>& maps,
                                                const Dims& src_strides, const Dims& dst_strides,
                                                float fill) {
  std::vector<MoveAxis> axes;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    MoveAxis axis{static_cast<std::int64_t>(maps[i].size()), 0, dst_strides[i], {}};
    for (const std::int64_t index : maps[i])
      axis.offsets.push_back(index < 0 ? kFill : index * src_strides[i]);
    axes.push_back(std::move(axis));
  }
  return make_move_kernel(std::move(axes), sizeof(float), std::bit_cast<std::uint32_t>(fill));
}

std::shared_ptr<const Kernel> make_linear_kernel(const Dims& src, const Dims& dst,
                                                 const std::vector<std::vector<LinearTap>>& taps) {
  return std::make_shared<LinearKernel>(src, dst, taps);
}

}  // namespace ctxgen::onednn
