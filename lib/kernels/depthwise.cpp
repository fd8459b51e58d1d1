#include "ctxgen/kernels/depthwise.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "depthwise.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretches.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Pixels of a line that are computed at once: each weight is loaded once for them, and their sums need not wait for
/// each other.
inline constexpr std::int64_t kMostPixels = 8;

/// Neighbouring pixels of a line, whose windows cover the same positions of the kernel, and channels of them.
struct Pixels {
  const float* src;       // at the first pixel's first position
  std::int64_t apart;     // floats from a pixel's window to the next one's
  const float* weights;   // at that position
  std::int64_t position;  // floats between neighbouring positions of a line, in src
  std::int64_t line;      // the same between lines
  std::int64_t weight_pitch, weight_line;
  std::int64_t lines, columns;  // positions
  const float* start;           // null: none
  std::int64_t start_pitch;
  const float* bias;  // null: none
  float* to;
  std::int64_t to_pitch;
  std::int64_t channels;
  float low, high;
  bool clamped;
};

/// Adds the products of a line of the kernel, whose every weight is loaded once for all pixels.
template <std::size_t kPixels, bool kWhole>
HWY_INLINE void add_line(const Pixels& t, const float* HWY_RESTRICT src,
                         const float* HWY_RESTRICT weight, std::size_t count,
                         FloatVector (&sums)[kPixels]) {
  const std::int64_t apart = t.apart, apart_3 = 3 * t.apart;
  const float* HWY_RESTRICT far = kPixels > 4 ? src + 4 * apart : src;
  for (std::int64_t k = 0; k < t.columns; ++k) {
    const FloatVector w = load<kWhole>(weight, count);
    unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED {
      const float* base = p < 4 ? src : far;
      const float* at = p % 4 == 3 ? base + apart_3 : base + std::int64_t{p % 4} * apart;
      sums[p] = hn::MulAdd(load<kWhole>(at, count), w, sums[p]);
    });
    src += t.position;
    far += t.position;
    weight += t.weight_pitch;
  }
}

/// The same where windows are kStride positions apart, and a line of the kernel has kColumns: every element of the
/// source is loaded once, too. The sums' terms come in the same order.
template <std::size_t kPixels, std::size_t kStride, std::size_t kColumns>
HWY_INLINE void add_sliding_line(const Pixels& t, const float* HWY_RESTRICT src,
                                 const float* HWY_RESTRICT weight, FloatVector (&sums)[kPixels]) {
  const Floats d;
  FloatVector w[kColumns];
  unrolled<kColumns>([&](auto k) CTXGEN_UNROLLED {
    w[k] = hn::LoadU(d, weight + std::int64_t{k} * t.weight_pitch);
  });
  unrolled<(kPixels - 1) * kStride + kColumns>([&](auto j) CTXGEN_UNROLLED {
    const FloatVector x = hn::LoadU(d, src);
    src += t.position;
    unrolled<kColumns>([&](auto k) CTXGEN_UNROLLED {
      if constexpr (j >= k && (j - k) % kStride == 0 && (j - k) / kStride < kPixels) {
        FloatVector& sum = sums[(j - k) / kStride];
        sum = hn::MulAdd(x, w[k], sum);
      }
    });
  });
}

/// A vector of channels from `c` on; the first `count` lanes of it if not kWhole. kStride and kColumns: as of
/// add_sliding_line(), 0: any.
template <std::size_t kPixels, std::size_t kStride, std::size_t kColumns, bool kWhole>
HWY_INLINE void convolve_vector(const Pixels& t, std::int64_t c, std::size_t count) {
  const Floats d;
  FloatVector sums[kPixels];
  unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED {
    sums[p] = t.start == nullptr
                  ? hn::Zero(d)
                  : load<kWhole>(t.start + static_cast<std::int64_t>(p) * t.start_pitch + c, count);
  });
  const float* line = t.src + c;
  const float* weights = t.weights + c;
  for (std::int64_t i = 0; i < t.lines; ++i, line += t.line, weights += t.weight_line) {
    if constexpr (kColumns > 0)
      add_sliding_line<kPixels, kStride, kColumns>(t, line, weights, sums);
    else
      add_line<kPixels, kWhole>(t, line, weights, count, sums);
  }
  if (t.bias != nullptr) {
    const FloatVector bias = load<kWhole>(t.bias + c, count);
    unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED { sums[p] = hn::Add(sums[p], bias); });
  }
  if (t.clamped) {
    const FloatVector low = hn::Set(d, t.low), high = hn::Set(d, t.high);
    unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED { sums[p] = clamp(sums[p], low, high); });
  }
  unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED {
    store<kWhole>(sums[p], t.to + static_cast<std::int64_t>(p) * t.to_pitch + c, count);
  });
}

template <std::size_t kPixels, std::size_t kStride, std::size_t kColumns>
HWY_NOINLINE void convolve_pixels(const Pixels& t) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  std::int64_t c = 0;
  for (; c + kStep <= t.channels; c += kStep)
    convolve_vector<kPixels, kStride, kColumns, true>(t, c, kLanes);
  if (c < t.channels)
    convolve_vector<kPixels, 0, 0, false>(t, c, static_cast<std::size_t>(t.channels - c));
}

using PixelsFunction = void (*)(const Pixels&);
/// By pixels less one.
template <std::size_t kStride, std::size_t kColumns>
constexpr auto kPixelFunctions = []<std::size_t... p>(std::index_sequence<p...>) {
  return std::array<PixelsFunction, sizeof...(p)>{&convolve_pixels<p + 1, kStride, kColumns>...};
}(std::make_index_sequence<static_cast<std::size_t>(kMostPixels)>());

template <std::size_t kStride>
HWY_INLINE PixelsFunction sliding_function(std::int64_t columns, std::size_t index) {
  switch (columns) {
    case 3: return kPixelFunctions<kStride, 3>[index];
    case 5: return kPixelFunctions<kStride, 5>[index];
    case 7: return kPixelFunctions<kStride, 7>[index];
    default: return kPixelFunctions<0, 0>[index];
  }
}

HWY_INLINE PixelsFunction function_for(const Pixels& t, std::int64_t pixels) {
  const auto index = static_cast<std::size_t>(pixels - 1);
  if (t.apart == t.position) return sliding_function<1>(t.columns, index);
  if (t.apart == 2 * t.position) return sliding_function<2>(t.columns, index);
  return kPixelFunctions<0, 0>[index];
}

/// Channels of lines of one image whose windows cover the same lines of the kernel.
class Lines {
 public:
  HWY_INLINE Lines(const Depthwise& conv, std::int64_t image, const Stretch& lines,
                   std::int64_t channel, std::int64_t channels)
      : conv_(conv), w_(conv.windows), lines_(lines), image_(image), channel_(channel) {
    const Finish& finish = conv.finish;
    pixels_.position = w_.dilation[1] * w_.pitch;
    pixels_.line = w_.dilation[0] * w_.size[1] * w_.pitch;
    pixels_.weight_pitch = conv.weight_pitch;
    pixels_.weight_line = w_.kernel[1] * conv.weight_pitch;
    pixels_.bias = finish.bias == nullptr ? nullptr : finish.bias + channel;
    pixels_.channels = channels;
    pixels_.low = finish.low;
    pixels_.high = finish.high;
    pixels_.clamped = finish.low > -std::numeric_limits<float>::infinity() ||
                      finish.high < std::numeric_limits<float>::infinity();
  }

  HWY_INLINE void convolve() {
    constexpr std::int64_t kFew = 4;
    for (std::int64_t x = 0; x < w_.result[1];) {
      const Stretch columns = stretch(w_, 1, x, w_.result[1]);
      take_positions(columns.covered);
      if (columns.count() < kFew && lines_.count() > columns.count()) {
        go_along(0);
        for (; x < columns.end; ++x) take(lines_.first, x, lines_.count());
      } else {
        go_along(1);
        for (std::int64_t y = lines_.first; y < lines_.end; ++y) take(y, x, columns.count());
      }
      x = columns.end;
    }
  }

 private:
  HWY_INLINE void take_positions(Positions columns) {
    pixels_.lines = HWY_MAX(lines_.covered.end - lines_.covered.first, std::int64_t{0});
    pixels_.columns = HWY_MAX(columns.end - columns.first, std::int64_t{0});
    if (pixels_.columns == 0) pixels_.lines = 0;
    first_column_ = columns.first;
    pixels_.weights = conv_.weights + channel_;
    if (pixels_.lines > 0)
      pixels_.weights += (lines_.covered.first * w_.kernel[1] + columns.first) * conv_.weight_pitch;
  }

  /// Tiles are pixels of a column, of a line.
  HWY_INLINE void go_along(std::size_t axis) {
    const std::int64_t source = axis == 0 ? w_.size[1] : 1, result = axis == 0 ? w_.result[1] : 1;
    pixels_.apart = w_.stride[axis] * source * w_.pitch;
    pixels_.start_pitch = result * conv_.finish.start_pitch;
    pixels_.to_pitch = result * conv_.result_pitch;
  }

  /// `count` pixels from line y and column x on, in tiles of about as many each.
  HWY_INLINE void take(std::int64_t y, std::int64_t x, std::int64_t count) {
    const std::int64_t pixel = (image_ * w_.result[0] + y) * w_.result[1] + x;
    pixels_.src = conv_.src + image_ * w_.size[0] * w_.size[1] * w_.pitch + channel_;
    if (pixels_.lines > 0) {
      const std::int64_t top = y * w_.stride[0] - w_.pad[0] + lines_.covered.first * w_.dilation[0];
      const std::int64_t left = x * w_.stride[1] - w_.pad[1] + first_column_ * w_.dilation[1];
      pixels_.src += (top * w_.size[1] + left) * w_.pitch;
    }
    const Finish& finish = conv_.finish;
    pixels_.start =
        finish.start == nullptr ? nullptr : finish.start + pixel * finish.start_pitch + channel_;
    pixels_.to = conv_.result + pixel * conv_.result_pitch + channel_;
    for (std::int64_t tiles = (count + kMostPixels - 1) / kMostPixels; tiles > 0; --tiles) {
      const std::int64_t here = (count + tiles - 1) / tiles;
      function_for(pixels_, here)(pixels_);
      if (pixels_.lines > 0) pixels_.src += here * pixels_.apart;
      if (pixels_.start != nullptr) pixels_.start += here * pixels_.start_pitch;
      pixels_.to += here * pixels_.to_pitch;
      count -= here;
    }
  }

  const Depthwise& conv_;
  const Windows& w_;
  Stretch lines_;
  std::int64_t image_, channel_, first_column_ = 0;
  Pixels pixels_{};
};

/// Channels by channels, so many that the lines of their windows stay in a near cache.
HWY_NOINLINE void convolve_part(const Depthwise& conv, const DepthwisePart& part) {
  const Windows& w = conv.windows;
  constexpr std::int64_t kCacheFloats = 18 << 10, kLine = 16;
  const std::int64_t floats = HWY_MAX(HWY_MIN(w.kernel[0], w.size[0]) * w.size[1], std::int64_t{1});
  const std::int64_t step = HWY_MAX(kCacheFloats / floats / kLine, std::int64_t{1}) * kLine;
  const std::int64_t end = part.line + part.lines;
  for (std::int64_t c = 0; c < part.channels; c += step)
    for (std::int64_t line = part.line; line < end;) {
      const std::int64_t image = line / w.result[0], first = image * w.result[0];
      const Stretch lines = stretch(w, 0, line - first, HWY_MIN(w.result[0], end - first));
      Lines(conv, image, lines, part.channel + c, HWY_MIN(step, part.channels - c)).convolve();
      line = first + lines.end;
    }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

namespace {

constexpr std::int64_t kPartFloats = 24 << 10;  // of a result
constexpr std::int64_t kLeastChannels = 64;     // of a part where there are more
constexpr std::int64_t kPartWork = 1 << 16;     // multiply-adds that are worth a part of their own

}  // namespace

std::int64_t DepthwiseParts::count() const {
  if (lines <= 0 || channels <= 0) return 0;
  return divide_up(lines, part_lines) * divide_up(channels, part_channels);
}

DepthwisePart DepthwiseParts::part(std::int64_t index) const {
  const std::int64_t across = divide_up(channels, part_channels);
  const std::int64_t line = index / across * part_lines, channel = index % across * part_channels;
  return {line, std::min(part_lines, lines - line), channel,
          std::min(part_channels, channels - channel)};
}

DepthwiseParts depthwise_parts(const Windows& windows, std::int64_t wanted) {
  const std::int64_t line =
      std::max<std::int64_t>(windows.result[1] * windows.channels, 1);  // floats of the result
  DepthwiseParts parts{.lines = windows.images * windows.result[0],
                       .channels = windows.channels,
                       .part_lines = std::max<std::int64_t>(kPartFloats / line, 1),
                       .part_channels = std::max<std::int64_t>(windows.channels, 1)};
  const std::int64_t least_floats =
      std::max<std::int64_t>(kPartWork / (windows.kernel[0] * windows.kernel[1]), 1);
  while (parts.count() < wanted) {
    const std::int64_t lines = std::min(parts.part_lines, parts.lines);
    if (lines * windows.result[1] * parts.part_channels / 2 < least_floats) break;
    if (lines > 1)
      parts.part_lines = divide_up(lines, 2);
    else if (parts.part_channels > kLeastChannels)
      parts.part_channels = divide_up(divide_up(parts.part_channels, 2), 16) * 16;
    else
      break;
  }
  return parts;
}

void convolve_depthwise(const Depthwise& conv, const DepthwisePart& part) {
  CTXGEN_DISPATCH(convolve_part(conv, part));
}

}  // namespace ctxgen::kernels
#endif
