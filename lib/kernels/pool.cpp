#include "ctxgen/kernels/pool.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretches.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Neighbouring pixels of a line that are computed at once: the columns that their windows share are read once.
inline constexpr std::size_t kPixels = 4;

/// Neighbouring pixels of a line, whose windows cover the same positions of the kernel.
struct Pixels {
  const float* src;       // at the first pixel's first position
  std::int64_t apart;     // floats from a pixel's window to the next one's
  std::int64_t position;  // floats between neighbouring positions of a line
  std::int64_t line;      // the same between lines
  std::int64_t lines, columns;
  float* to;
  std::int64_t channels;
  float count;  // what averages are divided by
};

struct Largest {
  static HWY_INLINE FloatVector none() {
    return hn::Set(Floats(), -std::numeric_limits<float>::infinity());
  }
  /// A NaN of either stays. x86's Max returns its second operand where one is NaN, so `x` stays by itself.
  static HWY_INLINE FloatVector join(FloatVector sum, FloatVector x) {
#if HWY_ARCH_X86
    const FloatVector larger = hn::Max(sum, x);
#else
    const FloatVector larger = hn::IfThenElse(hn::Gt(sum, x), sum, x);
#endif
    return hn::Or(larger, hn::IfThenElseZero(hn::IsNaN(sum), sum));
  }
  static HWY_INLINE FloatVector finish(FloatVector sum, FloatVector) { return sum; }
};

struct Mean {
  static HWY_INLINE FloatVector none() { return hn::Zero(Floats()); }
  static HWY_INLINE FloatVector join(FloatVector sum, FloatVector x) { return hn::Add(sum, x); }
  static HWY_INLINE FloatVector finish(FloatVector sum, FloatVector count) {
    return hn::Div(sum, count);
  }
};

/// The lines of a column of positions: kLines, or, where that is 0, as many as there are.
template <class Join, bool kWhole, std::size_t kLines = 0>
HWY_INLINE FloatVector join_column(const Pixels& t, const float* at, std::size_t count) {
  FloatVector sum = load<kWhole>(at, count);
  if constexpr (kLines > 0) {
    unrolled<kLines - 1>([&](auto) CTXGEN_UNROLLED {
      at += t.line;
      sum = Join::join(sum, load<kWhole>(at, count));
    });
    return sum;
  }
  for (std::int64_t i = 1; i < t.lines; ++i) {
    at += t.line;
    sum = Join::join(sum, load<kWhole>(at, count));
  }
  return sum;
}

/// A vector of channels of one pixel.
template <class Join, bool kWhole>
HWY_INLINE void pool_pixel(const Pixels& t, const float* src, float* to, std::size_t count) {
  FloatVector sum = Join::none();
  if (t.lines > 0 && t.columns > 0) {
    sum = join_column<Join, kWhole>(t, src, count);
    for (std::int64_t i = 1; i < t.columns; ++i)
      sum = Join::join(sum, join_column<Join, kWhole>(t, src + i * t.position, count));
  }
  store<kWhole>(Join::finish(sum, hn::Set(Floats(), t.count)), to, count);
}

/// A vector of channels of kPixels pixels that are kStride positions apart, with kColumns columns each.
template <class Join, std::size_t kStride, std::size_t kColumns, std::size_t kLines>
HWY_INLINE void pool_sliding(const Pixels& t, const float* src, float* to) {
  FloatVector sums[kPixels];
  unrolled<(kPixels - 1) * kStride + kColumns>([&](auto j) CTXGEN_UNROLLED {
    const FloatVector column = join_column<Join, true, kLines>(t, src, kLanes);
    src += t.position;
    unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED {
      if constexpr (j == p * kStride)
        sums[p] = column;
      else if constexpr (j > p * kStride && j < p * kStride + kColumns)
        sums[p] = Join::join(sums[p], column);
    });
  });
  const FloatVector count = hn::Set(Floats(), t.count);
  unrolled<kPixels>([&](auto p) CTXGEN_UNROLLED {
    hn::StoreU(Join::finish(sums[p], count), Floats(), to + std::int64_t{p} * t.channels);
  });
}

/// The stride of the pool_sliding() that there is for pixels; 0: none.
HWY_INLINE std::size_t sliding_stride(const Pixels& t) {
  const bool few = t.columns == 2 || t.columns == 3;
  if (t.lines == 0) return 0;
  if (t.apart == t.position) return few || t.columns == 5 ? 1 : 0;
  return few && t.apart == 2 * t.position ? 2 : 0;
}

template <class Join, std::size_t kStride, std::size_t kColumns>
HWY_NOINLINE void slide(const Pixels& t) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  const bool square = t.lines == static_cast<std::int64_t>(kColumns);
  for (std::int64_t c = 0; c + kStep <= t.channels; c += kStep) {
    if (square)
      pool_sliding<Join, kStride, kColumns, kColumns>(t, t.src + c, t.to + c);
    else
      pool_sliding<Join, kStride, kColumns, 0>(t, t.src + c, t.to + c);
  }
}

/// The whole vectors of channels of kPixels pixels.
template <class Join>
HWY_INLINE void slide_pixels(const Pixels& t, std::size_t stride) {
  if (stride == 2) return t.columns == 3 ? slide<Join, 2, 3>(t) : slide<Join, 2, 2>(t);
  switch (t.columns) {
    case 2: return slide<Join, 1, 2>(t);
    case 3: return slide<Join, 1, 3>(t);
    default: return slide<Join, 1, 5>(t);
  }
}

/// Channels [c, t.channels) of a pixel.
template <class Join>
HWY_NOINLINE void pool_channels(const Pixels& t, std::int64_t c) {
  constexpr auto kStep = static_cast<std::int64_t>(kLanes);
  for (; c + kStep <= t.channels; c += kStep)
    pool_pixel<Join, true>(t, t.src + c, t.to + c, kLanes);
  if (c < t.channels)
    pool_pixel<Join, false>(t, t.src + c, t.to + c, static_cast<std::size_t>(t.channels - c));
}

/// `count` neighbouring pixels.
template <class Join>
HWY_INLINE void pool_pixels(Pixels t, std::int64_t count) {
  constexpr auto kAtOnce = static_cast<std::int64_t>(kPixels);
  const auto step = [&](std::int64_t pixels) HWY_ATTR {
    t.src += pixels * t.apart;
    t.to += pixels * t.channels;
    count -= pixels;
  };
  const std::int64_t whole = t.channels - t.channels % static_cast<std::int64_t>(kLanes);
  const std::size_t stride = sliding_stride(t);
  while (stride > 0 && count >= kAtOnce) {
    slide_pixels<Join>(t, stride);
    if (whole == t.channels) {
      step(kAtOnce);
    } else {
      for (std::int64_t i = 0; i < kAtOnce; ++i) {
        pool_channels<Join>(t, whole);
        step(1);
      }
    }
  }
  while (count > 0) {
    pool_channels<Join>(t, 0);
    step(1);
  }
}

/// Positions of a window that count: `covered`, or those in the padding, too.
HWY_INLINE std::int64_t counted(const Pool& pool, std::size_t axis, std::int64_t at,
                                const Positions& covered) {
  const Windows& w = pool.windows;
  if (!pool.counts_padding) return covered.count();
  const std::int64_t begin = at * w.stride[axis] - w.pad[axis];
  return HWY_MAX(positions(begin, pool.counted[axis], w.kernel[axis], w.dilation[axis]).end,
                 std::int64_t{0});
}

/// Results [x.first, x.end) of a line, whose windows cover the lines `y` of the kernel.
template <class Join>
HWY_INLINE void pool_stretch(const Pool& pool, Pixels t, std::int64_t image, std::int64_t line,
                             const Positions& y, const Stretch& x) {
  const Windows& w = pool.windows;
  t.columns = x.covered.count();
  t.src = pool.src + image * w.size[0] * w.size[1] * w.pitch;
  if (t.lines > 0 && t.columns > 0) {
    const std::int64_t top = line * w.stride[0] - w.pad[0] + y.first * w.dilation[0];
    const std::int64_t left = x.first * w.stride[1] - w.pad[1] + x.covered.first * w.dilation[1];
    t.src += (top * w.size[1] + left) * w.pitch;
  } else {
    t.lines = t.columns = t.apart = 0;  // nothing is read
  }
  t.to = pool.result + ((image * w.result[0] + line) * w.result[1] + x.first) * w.channels;
  const std::int64_t lines = counted(pool, 0, line, y);
  // Where padding counts, windows of a stretch may count more or less of it.
  for (std::int64_t at = x.first; at < x.end;) {
    const std::int64_t columns = counted(pool, 1, at, x.covered);
    std::int64_t end = at + 1;
    while (end < x.end && counted(pool, 1, end, x.covered) == columns) ++end;
    t.count = static_cast<float>(HWY_MAX(lines * columns, std::int64_t{1}));
    pool_pixels<Join>(t, end - at);
    t.src += (end - at) * t.apart;
    t.to += (end - at) * w.channels;
    at = end;
  }
}

template <class Join>
HWY_NOINLINE void pool_part(const Pool& pool, std::int64_t first, std::int64_t lines) {
  const Windows& w = pool.windows;
  for (std::int64_t i = first; i < first + lines; ++i) {
    const std::int64_t image = i / w.result[0], line = i % w.result[0];
    const Positions y =
        positions(line * w.stride[0] - w.pad[0], w.size[0], w.kernel[0], w.dilation[0]);
    Pixels t{};
    t.apart = w.stride[1] * w.pitch;
    t.position = w.dilation[1] * w.pitch;
    t.line = w.dilation[0] * w.size[1] * w.pitch;
    t.lines = y.count();
    t.channels = w.channels;
    for (std::int64_t x = 0; x < w.result[1];) {
      const Stretch columns = stretch(w, 1, x, w.result[1]);
      pool_stretch<Join>(pool, t, image, line, y, columns);
      x = columns.end;
    }
  }
}

void pool_all(const Pool& pool, std::int64_t line, std::int64_t lines) {
  if (pool.mode == Pool::Mode::kMaximum) return pool_part<Largest>(pool, line, lines);
  pool_part<Mean>(pool, line, lines);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void pool_lines(const Pool& pool, std::int64_t line, std::int64_t lines) {
  CTXGEN_DISPATCH(pool_all(pool, line, lines));
}

}  // namespace ctxgen::kernels
#endif
