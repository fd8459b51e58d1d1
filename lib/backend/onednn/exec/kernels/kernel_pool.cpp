#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "ctxgen/base/simd.h"
#include "ctxgen/kernels/byte_pool.h"
#include "ctxgen/kernels/pool.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "layout/layout.h"
#include "rules/conv_rules.h"

namespace ctxgen::onednn {
namespace {

/// Of a pool that has met a NaN nothing else is made.
template <class T>
[[gnu::always_inline]] inline T larger(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) return a > b || a != a ? a : b;
  return a > b ? a : b;
}

constexpr auto take_max =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const auto* src, auto* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] = larger(dst[i], src[i]);
    });

constexpr auto accumulate =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* src, float* dst) {
      for (std::int64_t i = 0; i < n; ++i) dst[i] += src[i];
    });
constexpr auto divide = simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, float by, float* dst) {
  for (std::int64_t i = 0; i < n; ++i) dst[i] /= by;
});

/// One output position along one spatial axis: which taps fall inside, how many count.
struct Taps {
  std::int64_t start = 0;            // input index of the first tap (may be negative)
  std::int64_t first = 0, last = 0;  // taps [first, last) are inside the input
  std::int64_t counted = 0;          // taps inside input or declared padding
};

template <class T>
class PoolKernel final : public Kernel {
 public:
  PoolKernel(const Dims& src, Window window, PoolMode mode)
      : window_(std::move(window)), mode_(mode), batch_(src[0]), channels_(src[1]) {
    // Ranks 3 and 4 become 5 by leading spatial dims of size 1.
    const std::size_t k = window_.kernel.size();
    for (std::size_t i = k; i < 3; ++i) {
      for (auto* list : {&window_.kernel, &window_.strides, &window_.dilations, &window_.out})
        list->insert(list->begin(), 1);
      window_.pad_begin.insert(window_.pad_begin.begin(), 0);
      window_.pad_end.insert(window_.pad_end.begin(), 0);
    }
    for (std::size_t i = 0; i < 3; ++i) in_[i] = i + k < 3 ? 1 : src[i + k - 1];
    pixels_ = window_.out[0] * window_.out[1] * window_.out[2];
  }

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const T*>(args[0]);
    auto* dst = reinterpret_cast<T*>(args[1]);
    const std::int64_t taps = window_.kernel[0] * window_.kernel[1] * window_.kernel[2];
    const std::int64_t work = work_of(batch_ * pixels_ * channels_, taps);
    parallel_for(workers, batch_ * pixels_, work, [&](std::int64_t job) {
      const std::int64_t image = job / pixels_;
      pool_one(job % pixels_, src + image * in_[0] * in_[1] * in_[2] * channels_,
               dst + job * channels_);
    });
    return {};
  }

 private:
  [[nodiscard]] Taps taps(std::size_t axis, std::int64_t position) const {
    const std::int64_t step = window_.dilations[axis];
    Taps t;
    t.start = position * window_.strides[axis] - window_.pad_begin[axis];
    for (std::int64_t tap = 0; tap < window_.kernel[axis]; ++tap) {
      const std::int64_t at = t.start + tap * step;
      if (at < 0) t.first = tap + 1;
      if (at < in_[axis]) t.last = tap + 1;
      if (at < in_[axis] + window_.pad_end[axis]) t.counted = tap + 1;
    }
    t.last = std::max(t.last, t.first);
    return t;
  }

  void pool_one(std::int64_t pixel, const T* src, T* dst) const {
    const Taps d = taps(0, pixel / (window_.out[1] * window_.out[2]));
    const Taps h = taps(1, pixel / window_.out[2] % window_.out[1]);
    const Taps w = taps(2, pixel % window_.out[2]);
    const bool max = mode_ == PoolMode::kMax;
    using Limits = std::numeric_limits<T>;
    const T lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    std::fill_n(dst, channels_, max ? lowest : T{});
    for (std::int64_t a = d.first; a < d.last; ++a)
      for (std::int64_t b = h.first; b < h.last; ++b)
        for (std::int64_t c = w.first; c < w.last; ++c) {
          const std::int64_t row =
              (d.start + a * window_.dilations[0]) * in_[1] + h.start + b * window_.dilations[1];
          const T* at = src + (row * in_[2] + w.start + c * window_.dilations[2]) * channels_;
          if (max) take_max(channels_, at, dst);
          if constexpr (std::is_same_v<T, float>)
            if (!max) accumulate(channels_, at, dst);
        }
    if (max) return;
    const std::int64_t inside = (d.last - d.first) * (h.last - h.first) * (w.last - w.first);
    const std::int64_t count =
        mode_ == PoolMode::kAverageInclude ? d.counted * h.counted * w.counted : inside;
    if constexpr (std::is_same_v<T, float>)
      if (count > 0) divide(channels_, static_cast<float>(count), dst);
  }

  Window window_;
  PoolMode mode_;
  std::int64_t batch_, channels_;
  std::int64_t in_[3] = {1, 1, 1};
  std::int64_t pixels_ = 1;
};

/// Calls task(line) for all lines of results.
template <class Task>
void for_lines(const kernels::Windows& w, Workers& workers, const Task& task) {
  const std::int64_t work =
      work_of(work_of(w.rows(), w.channels), work_of(w.kernel[0], w.kernel[1]));
  parallel_for(workers, w.images * w.result[0], work, task);
}

/// Pools of f32 with one or two spatial dims.
class LinePoolKernel final : public Kernel {
 public:
  explicit LinePoolKernel(kernels::Pool pool) : pool_(pool) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::Pool pool = pool_;
    pool.src = reinterpret_cast<const float*>(args[0]);
    pool.result = reinterpret_cast<float*>(args[1]);
    for_lines(pool.windows, workers,
              [&](std::int64_t line) { kernels::pool_lines(pool, line, 1); });
    return {};
  }

 private:
  kernels::Pool pool_;
};

/// Maxima of bytes, likewise.
class BytePoolKernel final : public Kernel {
 public:
  BytePoolKernel(const kernels::Windows& windows, bool is_signed)
      : pool_{.windows = windows, .is_signed = is_signed} {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::BytePool pool = pool_;
    pool.src = reinterpret_cast<const std::uint8_t*>(args[0]);
    pool.result = reinterpret_cast<std::uint8_t*>(args[1]);
    for_lines(pool.windows, workers,
              [&](std::int64_t line) { kernels::pool_byte_lines(pool, line, 1); });
    return {};
  }

 private:
  kernels::BytePool pool_;
};

/// The pool as lib/kernels knows it. One spatial dim becomes lines of one pixel, which threads share.
kernels::Pool line_pool(const Dims& src, const Window& window, PoolMode mode) {
  kernels::Pool pool{.windows = windows_of(src, window, 1),
                     .mode = mode == PoolMode::kMax ? kernels::Pool::Mode::kMaximum
                                                    : kernels::Pool::Mode::kAverage,
                     .counts_padding = mode == PoolMode::kAverageInclude};
  kernels::Windows& w = pool.windows;
  const std::size_t last = window.pad_end.size() - 1;
  pool.counted = {w.size[0] + (last > 0 ? window.pad_end[0] : 0), w.size[1] + window.pad_end[last]};
  if (last == 0)
    for (auto* pair :
         {&w.size, &w.result, &w.kernel, &w.stride, &w.dilation, &w.pad, &pool.counted})
      std::swap((*pair)[0], (*pair)[1]);
  return pool;
}

class LrnKernel final : public Kernel {
 public:
  LrnKernel(std::int64_t pixels, std::int64_t channels, LrnWindow params)
      : pixels_(pixels), channels_(channels), params_(params) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* src = reinterpret_cast<const float*>(args[0]);
    auto* dst = reinterpret_cast<float*>(args[1]);
    parallel_for(
        workers, pixels_, work_of(pixels_ * channels_, params_.size),
        [&](std::int64_t pixel) { normalise(src + pixel * channels_, dst + pixel * channels_); });
    return {};
  }

 private:
  void normalise(const float* src, float* dst) const {
    const std::int64_t before = (params_.size - 1) / 2;
    const std::int64_t after = params_.size - 1 - before;
    for (std::int64_t c = 0; c < channels_; ++c) {
      float sum = 0;
      const std::int64_t last = std::min(channels_ - 1, c + after);
      for (std::int64_t i = std::max<std::int64_t>(0, c - before); i <= last; ++i)
        sum += src[i] * src[i];
      const float base = params_.bias + params_.alpha / static_cast<float>(params_.size) * sum;
      dst[c] = src[c] / std::pow(base, params_.beta);
    }
  }

  std::int64_t pixels_, channels_;
  LrnWindow params_;
};

}  // namespace

std::shared_ptr<const Kernel> make_pool_kernel(const Dims& src, const Window& window, PoolMode mode,
                                               DataType type) {
  if (type == DataType::kFloat && src.size() <= 4)
    return std::make_shared<LinePoolKernel>(line_pool(src, window, mode));
  if (is_byte(type) && src.size() <= 4)
    return std::make_shared<BytePoolKernel>(line_pool(src, window, mode).windows,
                                            type == DataType::kInt8);
  if (type == DataType::kUint8)
    return std::make_shared<PoolKernel<std::uint8_t>>(src, window, mode);
  if (type == DataType::kInt8) return std::make_shared<PoolKernel<std::int8_t>>(src, window, mode);
  return std::make_shared<PoolKernel<float>>(src, window, mode);
}

std::shared_ptr<const Kernel> make_lrn_kernel(std::int64_t pixels, std::int64_t channels,
                                              LrnWindow params) {
  return std::make_shared<LrnKernel>(pixels, channels, params);
}

}  // namespace ctxgen::onednn
