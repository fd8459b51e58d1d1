#include <algorithm>
#include <cstring>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_move.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kFill = INT64_MIN;  // an offset that stands for padding

struct IndexAxis {
  std::vector<std::int64_t> offsets;  // into src, in elements; kFill
  std::int64_t dst_stride = 0;
};

/// Elements of the innermost axis that are side by side in src, or that are all padding.
struct Run {
  std::int64_t dst = 0, length = 0, src = 0;  // src: kFill for padding
};

constexpr auto gather_elements = simd_loop(
    [] CTXGEN_SIMD_LOOP(std::int64_t n, const float* src, const std::int64_t* offsets, float* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[offsets[i]];
    });
constexpr auto copy_elements =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* src, float* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = src[i];
    });

/// Axes by dst stride; those of one element that is not moved are dropped.
std::vector<IndexAxis> order_axes(const std::vector<AxisMap>& maps, const Dims& src_strides,
                                  const Dims& dst_strides) {
  std::vector<IndexAxis> axes;
  for (std::size_t i = 0; i < maps.size(); ++i) {
    if (maps[i].size() == 1 && maps[i][0] == 0) continue;
    IndexAxis axis{{}, dst_strides[i]};
    for (const std::int64_t index : maps[i])
      axis.offsets.push_back(index < 0 ? kFill : index * src_strides[i]);
    axes.push_back(std::move(axis));
  }
  std::ranges::stable_sort(axes, std::greater<>(), &IndexAxis::dst_stride);
  return axes;
}

std::vector<Run> find_runs(const IndexAxis& axis) {
  std::vector<Run> runs;
  for (std::size_t i = 0; i < axis.offsets.size(); ++i) {
    const std::int64_t offset = axis.offsets[i];
    const bool joins =
        !runs.empty() && (offset == kFill ? runs.back().src == kFill
                                          : runs.back().src != kFill &&
                                                offset == runs.back().src + runs.back().length);
    if (joins)
      runs.back().length += 1;
    else
      runs.push_back({static_cast<std::int64_t>(i), 1, offset});
  }
  return runs;
}

class IndexKernel final : public Kernel {
 public:
  IndexKernel(std::vector<IndexAxis> axes, float fill) : fill_(fill) {
    if (axes.empty()) axes.push_back({{0}, 1});
    inner_ = std::move(axes.back());
    axes.pop_back();
    axes_ = std::move(axes);
    for (const IndexAxis& axis : axes_) outer_ *= static_cast<std::int64_t>(axis.offsets.size());
    std::vector<Run> runs = find_runs(inner_);
    by_runs_ = inner_.dst_stride == 1 && (runs.size() * 4 <= inner_.offsets.size() ||
                                          std::ranges::contains(inner_.offsets, kFill));
    if (by_runs_) runs_ = std::move(runs);
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    const auto width = static_cast<std::int64_t>(inner_.offsets.size());
    parallel_for(workers, outer_, outer_ * width,
                 [&](std::int64_t job) { run_row(job, src, dst); });
    return {};
  }

 private:
  void run_row(std::int64_t index, const float* src, float* dst) const {
    bool outside = false;
    for (std::size_t i = axes_.size(); i-- > 0;) {
      const auto size = static_cast<std::int64_t>(axes_[i].offsets.size());
      const std::int64_t at = index % size;
      index /= size;
      dst += at * axes_[i].dst_stride;
      const std::int64_t offset = axes_[i].offsets[static_cast<std::size_t>(at)];
      if (offset == kFill)
        outside = true;
      else
        src += offset;
    }
    const auto width = static_cast<std::int64_t>(inner_.offsets.size());
    if (outside) {
      for (std::int64_t i = 0; i < width; ++i) dst[i * inner_.dst_stride] = fill_;
    } else if (by_runs_) {
      for (const Run& run : runs_) {
        if (run.src == kFill)
          std::fill_n(dst + run.dst, run.length, fill_);
        else
          copy_elements(run.length, src + run.src, dst + run.dst);
      }
    } else if (inner_.dst_stride == 1) {
      gather_elements(width, src, inner_.offsets.data(), dst);
    } else {
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t offset = inner_.offsets[static_cast<std::size_t>(i)];
        dst[i * inner_.dst_stride] = offset == kFill ? fill_ : src[offset];
      }
    }
  }

  std::vector<IndexAxis> axes_;
  IndexAxis inner_;
  std::vector<Run> runs_;
  std::int64_t outer_ = 1;
  bool by_runs_ = false;
  float fill_;
};

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
  return std::make_shared<IndexKernel>(order_axes(maps, src_strides, dst_strides), fill);
}

std::shared_ptr<const Kernel> make_linear_kernel(const Dims& src, const Dims& dst,
                                                 const std::vector<std::vector<LinearTap>>& taps) {
  return std::make_shared<LinearKernel>(src, dst, taps);
}

}  // namespace ctxgen::onednn
