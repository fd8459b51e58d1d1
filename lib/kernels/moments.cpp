#include "ctxgen/kernels/moments.h"

#include <algorithm>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "moments.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kDenormal = 1e-30;  // mean squares below may have lost digits in float

/// Whether sums in float are as good as the header says.
HWY_INLINE bool exact_enough(double count, double squares) {
  return squares < kInfinity && (squares > kDenormal * count || squares == 0);
}

/// Of `rows` rows of n channels, in double.
HWY_NOINLINE Moments wide_moments(std::int64_t rows, std::int64_t stride, std::int64_t n,
                                  const float* in) {
  Moments m{static_cast<double>(rows) * static_cast<double>(n)};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i) m.mean += double{in[r * stride + i]};
  m.mean /= m.count;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < n; ++i) {
      const double d = double{in[r * stride + i]} - m.mean;
      m.squares += d * d;
    }
  return m;
}

HWY_NOINLINE Moments moments(std::size_t n, const float* in) {
  const std::size_t run = run_length();
  Moments all;
  for (std::size_t i = 0; i < n; i += run) {
    const std::size_t part = HWY_MIN(run, n - i);
    const auto count = static_cast<double>(part);
    const auto pivot = static_cast<float>(sums_of_run<true>(part, in + i, 0).values / count);
    const Sums sums = sums_of_run<false>(part, in + i, pivot);
    const double rest = sums.values / count;
    Moments m{count, double{pivot} + rest, sums.squares - sums.values * rest};
    if (!exact_enough(count, sums.squares) || rest * sums.values > 0.01 * m.squares)
      m = wide_moments(1, 0, static_cast<std::int64_t>(part), in + i);
    all = merge(all, m);
  }
  return all;
}

constexpr std::int64_t kRows = 128;     // rows whose sums are kept in float
constexpr std::size_t kChannels = 512;  // channels whose sums are kept side by side

/// Per channel: the mean over the rows as float, and the sums of the differences from it and of their
/// squares.
struct ChannelSums {
  float pivot[kChannels], values[kChannels], squares[kChannels];
};

/// Of 2 vectors of channels, or of the n that are left; `masked`: fewer than those of one.
template <std::size_t kVectors, bool kMasked>
HWY_INLINE void strip_sums(std::int64_t rows, std::int64_t stride, const float* in,
                           std::size_t first, std::size_t n, ChannelSums& out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto load = [&](std::int64_t row, std::size_t v) HWY_ATTR {
    const float* at = in + row * stride + first + v * lanes;
    return kMasked ? hn::LoadN(d, at, n) : hn::LoadU(d, at);
  };
  const auto store = [&](Vector x, float* to, std::size_t v) HWY_ATTR {
    float* at = to + first + v * lanes;
    if constexpr (kMasked)
      hn::StoreN(x, d, at, n);
    else
      hn::StoreU(x, d, at);
  };
  // Sums of even and of odd rows, so that additions wait less for each other.
  Vector even[kVectors], odd[kVectors], squares[kVectors], pivot[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) even[v] = odd[v] = squares[v] = hn::Zero(d);
  std::int64_t row = 0;
  for (; row + 2 <= rows; row += 2)
    for (std::size_t v = 0; v < kVectors; ++v) {
      even[v] = hn::Add(even[v], load(row, v));
      odd[v] = hn::Add(odd[v], load(row + 1, v));
    }
  const Vector by = constant(1.0F / static_cast<float>(rows));
  for (std::size_t v = 0; v < kVectors; ++v) {
    if (row < rows) even[v] = hn::Add(even[v], load(row, v));
    pivot[v] = hn::Mul(hn::Add(even[v], odd[v]), by);
    even[v] = hn::Zero(d);
  }
  for (row = 0; row < rows; ++row)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Vector x = hn::Sub(load(row, v), pivot[v]);
      even[v] = hn::Add(even[v], x);
      squares[v] = hn::MulAdd(x, x, squares[v]);
    }
  for (std::size_t v = 0; v < kVectors; ++v) {
    store(pivot[v], out.pivot, v);
    store(even[v], out.values, v);
    store(squares[v], out.squares, v);
  }
}

HWY_INLINE void channel_sums(std::int64_t rows, std::int64_t stride, std::size_t n, const float* in,
                             ChannelSums& out) {
  const std::size_t lanes = hn::Lanes(Tag());
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) strip_sums<4, false>(rows, stride, in, i, 0, out);
  for (; i + lanes <= n; i += lanes) strip_sums<1, false>(rows, stride, in, i, 0, out);
  if (i < n) strip_sums<1, true>(rows, stride, in, i, n - i, out);
}

/// Of channels [first, last) of the sums: as numbers around the first channel's mean. The squares are
/// infinite where they are less than what the rounding of the means makes of them.
Moments moments_of_channels(std::int64_t rows, const ChannelSums& sums, std::size_t first,
                            std::size_t last) {
  const auto count = static_cast<double>(rows);
  const double origin = double{sums.pivot[first]};
  double values = 0, squares = 0, rounding = 0;
  for (std::size_t c = first; c < last; ++c) {
    const double by = double{sums.pivot[c]} - origin, value = double{sums.values[c]};
    values += value + count * by;
    rounding += value * value;
    squares += double{sums.squares[c]} + by * (2 * value + count * by);
  }
  const double all = count * static_cast<double>(last - first);
  const double mean = values / all;
  squares = std::max(squares - values * mean, 0.0);  // in this order a NaN stays one
  return {all, origin + mean, rounding > 0.01 * count * squares ? kInfinity : squares};
}

HWY_NOINLINE void add_channels(std::int64_t rows, std::int64_t stride, std::int64_t group_size,
                               const float* in, std::span<Moments> groups) {
  const auto size = static_cast<std::size_t>(group_size);
  const std::size_t channels = groups.size() * size;
  ChannelSums sums;
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t part = HWY_MIN(kRows, rows - r);
    for (std::size_t at = 0; at < channels;) {
      // Whole groups, or a part of one that is larger than the tile.
      const std::size_t within = at % size;
      const std::size_t n = size > kChannels ? HWY_MIN(kChannels, size - within)
                                             : HWY_MIN(kChannels / size * size, channels - at);
      const float* block = in + r * stride + at;
      channel_sums(part, stride, n, block, sums);
      for (std::size_t c = 0; c < n; c += size) {
        const std::size_t last = HWY_MIN(c + size, n);
        Moments m = moments_of_channels(part, sums, c, last);
        if (!exact_enough(m.count, m.squares))
          m = wide_moments(part, stride, static_cast<std::int64_t>(last - c), block + c);
        Moments& group = groups[(at + c) / size];
        group = merge(group, m);
      }
      at += n;
    }
  }
}

HWY_NOINLINE void scale(std::size_t n, const Affine& by, const float* in, float* out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector mean = constant(by.mean), factor = constant(by.factor), offset = constant(by.offset);
  const auto value = [&](Vector x)
                         HWY_ATTR { return hn::MulAdd(hn::Sub(x, mean), factor, offset); };
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(value(hn::LoadU(d, in + i)), d, out + i);
  if (i < n) hn::StoreN(value(hn::LoadN(d, in + i, n - i)), d, out + i, n - i);
}

HWY_NOINLINE void scale_channels(std::size_t n, const float* mean, const float* factor,
                                 const float* offset, const float* in, float* out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vector x = hn::Sub(hn::LoadU(d, in + i), hn::LoadU(d, mean + i));
    hn::StoreU(hn::MulAdd(x, hn::LoadU(d, factor + i), hn::LoadU(d, offset + i)), d, out + i);
  }
  if (i == n) return;
  const std::size_t rest = n - i;
  const Vector x = hn::Sub(hn::LoadN(d, in + i, rest), hn::LoadN(d, mean + i, rest));
  hn::StoreN(hn::MulAdd(x, hn::LoadN(d, factor + i, rest), hn::LoadN(d, offset + i, rest)), d,
             out + i, rest);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

Moments merge(const Moments& a, const Moments& b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, apart = b.mean - a.mean;
  return {count, a.mean + apart * (b.count / count),
          a.squares + b.squares + apart * apart * (a.count * (b.count / count))};
}

Moments moments_of(std::int64_t n, const float* in) {
  CTXGEN_DISPATCH(moments(static_cast<std::size_t>(n), in));
}

void add_moments(std::int64_t rows, std::int64_t stride, std::int64_t group_size, const float* in,
                 std::span<Moments> groups) {
  CTXGEN_DISPATCH(add_channels(rows, stride, group_size, in, groups));
}

void normalize_row(std::int64_t n, const Affine& by, const float* in, float* out) {
  CTXGEN_DISPATCH(scale(static_cast<std::size_t>(n), by, in, out));
}

void normalize_channels(std::int64_t n, const float* mean, const float* factor, const float* offset,
                        const float* in, float* out) {
  CTXGEN_DISPATCH(scale_channels(static_cast<std::size_t>(n), mean, factor, offset, in, out));
}

}  // namespace ctxgen::kernels
#endif
