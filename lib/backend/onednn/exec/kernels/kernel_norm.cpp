#include <algorithm>
#include <cmath>

#include "ctxgen/base/simd.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels_reduce.h"

namespace ctxgen::onednn {
namespace {

constexpr std::int64_t kLanes = 16;

struct Moments {
  double sum = 0, squares = 0;
};

constexpr auto moments_of = simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in) {
  double sums[kLanes] = {}, squares[kLanes] = {};
  const std::int64_t whole = n - n % kLanes;
  for (std::int64_t base = 0; base < whole; base += kLanes)
    for (std::int64_t i = 0; i < kLanes; ++i) {
      const double x = in[base + i];
      sums[i] += x;
      squares[i] += x * x;
    }
  Moments m;
  for (std::int64_t i = whole; i < n; ++i) {
    const double x = in[i];
    m.sum += x;
    m.squares += x * x;
  }
  for (std::int64_t i = 0; i < kLanes; ++i) {
    m.sum += sums[i];
    m.squares += squares[i];
  }
  return m;
});

constexpr auto add_moments =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, double* sums, double* squares) {
      for (std::int64_t i = 0; i < n; ++i) {
        const double x = in[i];
        sums[i] += x;
        squares[i] += x * x;
      }
    });

constexpr auto scale_row =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, float factor, const float* scale,
                                  float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * factor * scale[i];
    });
constexpr auto affine_row = simd_loop(
    [] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, float factor, float shift, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * factor + shift;
    });
constexpr auto affine_rows =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* in, const float* factor,
                                  const float* shift, float* out) {
      for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] * factor[i] + shift[i];
    });

class RmsKernel final : public Kernel {
 public:
  RmsKernel(std::int64_t rows, std::int64_t width, float epsilon)
      : rows_(rows), width_(width), epsilon_(epsilon) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    const auto* scale = reinterpret_cast<const float*>(args[1]);
    auto* dst = reinterpret_cast<float*>(args[2]);
    parallel_for(workers, rows_, rows_ * width_, [&](std::int64_t row) {
      const float* in = src + row * width_;
      const double mean = moments_of(width_, in).squares / static_cast<double>(width_);
      const auto factor = static_cast<float>(1.0 / std::sqrt(mean + double{epsilon_}));
      scale_row(width_, in, factor, scale, dst + row * width_);
    });
    return {};
  }

 private:
  std::int64_t rows_, width_;
  float epsilon_;
};

class GroupNormKernel final : public Kernel {
 public:
  GroupNormKernel(GroupNormShape shape, float epsilon, bool has_scale, bool has_shift)
      : shape_(shape), epsilon_(epsilon), has_scale_(has_scale), has_shift_(has_shift) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    const float* scale = has_scale_ ? reinterpret_cast<const float*>(args[2]) : nullptr;
    const float* shift =
        has_shift_ ? reinterpret_cast<const float*>(args[has_scale_ ? 3 : 2]) : nullptr;
    const std::int64_t image = shape_.channels * shape_.pixels;
    if (shape_.channels_last) {
      parallel_for(workers, shape_.images, shape_.images * image, [&](std::int64_t n) {
        run_last(src + n * image, scale, shift, dst + n * image);
      });
      return {};
    }
    parallel_for(workers, shape_.images * shape_.groups, shape_.images * image,
                 [&](std::int64_t job) {
                   run_group(job % shape_.groups, src + job / shape_.groups * image, scale, shift,
                             dst + job / shape_.groups * image);
                 });
    return {};
  }

 private:
  struct Normal {
    double mean, factor;
  };
  [[nodiscard]] Normal normal_of(const Moments& m) const {
    const auto count = static_cast<double>(shape_.channels / shape_.groups * shape_.pixels);
    const double mean = m.sum / count;
    // In this order a NaN stays one.
    const double variance = std::max(m.squares / count - mean * mean, 0.0);
    return {mean, 1.0 / std::sqrt(variance + double{epsilon_})};
  }
  /// The whole step for one channel as x * factor + shift.
  void affine_of(const Normal& normal, std::int64_t channel, const float* scale, const float* shift,
                 float& factor, float& offset) const {
    const double by = normal.factor * (scale != nullptr ? double{scale[channel]} : 1.0);
    factor = static_cast<float>(by);
    offset =
        static_cast<float>((shift != nullptr ? double{shift[channel]} : 0.0) - normal.mean * by);
  }

  void run_group(std::int64_t group, const float* src, const float* scale, const float* shift,
                 float* dst) const {
    const std::int64_t channels = shape_.channels / shape_.groups;
    const std::int64_t first = group * channels;
    const Normal normal =
        normal_of(moments_of(channels * shape_.pixels, src + first * shape_.pixels));
    for (std::int64_t c = first; c < first + channels; ++c) {
      float factor = 0, offset = 0;
      affine_of(normal, c, scale, shift, factor, offset);
      affine_row(shape_.pixels, src + c * shape_.pixels, factor, offset, dst + c * shape_.pixels);
    }
  }

  /// Channels whose sums are kept side by side: on the stack, as what a thread of a parallel loop
  /// throws ends the process.
  static constexpr std::int64_t kTile = 512;

  void run_last(const float* src, const float* scale, const float* shift, float* dst) const {
    const std::int64_t size = shape_.channels / shape_.groups;
    // Whole groups: as many as one tile holds, or one that takes several tiles.
    const std::int64_t span = std::max<std::int64_t>(kTile / size, 1) * size;
    for (std::int64_t first = 0; first < shape_.channels; first += span) {
      const std::int64_t end = std::min(first + span, shape_.channels);
      Normal normals[kTile];  // by group
      find_normals(src, first, end, normals);
      float factors[kTile], offsets[kTile];
      for (std::int64_t at = first; at < end; at += kTile) {
        const std::int64_t n = std::min(kTile, end - at);
        for (std::int64_t c = 0, g = 0; c < n; c += size, ++g)
          for (std::int64_t i = c; i < std::min(c + size, n); ++i)
            affine_of(normals[g], at + i, scale, shift, factors[i], offsets[i]);
        for (std::int64_t p = 0; p < shape_.pixels; ++p)
          affine_rows(n, src + p * shape_.channels + at, factors, offsets,
                      dst + p * shape_.channels + at);
      }
    }
  }

  /// Of the groups in channels [first, end) of an image.
  void find_normals(const float* src, std::int64_t first, std::int64_t end, Normal* normals) const {
    const std::int64_t size = shape_.channels / shape_.groups;
    Moments group;  // one that takes several tiles is the only one
    for (std::int64_t at = first; at < end; at += kTile) {
      const std::int64_t n = std::min(kTile, end - at);
      double sums[kTile] = {}, squares[kTile] = {};
      for (std::int64_t p = 0; p < shape_.pixels; ++p)
        add_moments(n, src + p * shape_.channels + at, sums, squares);
      for (std::int64_t c = 0, g = 0; c < n; c += size, ++g) {
        if (size <= kTile) group = {};
        for (std::int64_t i = c; i < std::min(c + size, n); ++i) {
          group.sum += sums[i];
          group.squares += squares[i];
        }
        normals[g] = normal_of(group);
      }
    }
  }

  GroupNormShape shape_;
  float epsilon_;
  bool has_scale_, has_shift_;
};

}  // namespace

std::shared_ptr<const Kernel> make_rms_kernel(std::int64_t rows, std::int64_t width,
                                              float epsilon) {
  return std::make_shared<RmsKernel>(rows, width, epsilon);
}

std::shared_ptr<const Kernel> make_group_norm_kernel(GroupNormShape shape, float epsilon,
                                                     bool has_scale, bool has_shift) {
  return std::make_shared<GroupNormKernel>(shape, epsilon, has_scale, has_shift);
}

}  // namespace ctxgen::onednn
