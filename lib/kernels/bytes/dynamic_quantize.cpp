#include "ctxgen/kernels/dynamic_quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/dynamic_quantize.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Reals = hn::ScalableTag<float>;
using Whole = hn::RebindToSigned<Reals>;

using Bytes = hn::Repartition<std::uint8_t, Reals>;

/// The least and the largest of the numbers and 0, whatever NaN does to them; whether there may be one.
struct FoundRange {
  float low, high;
  bool suspect;
};

template <bool kFilter>
HWY_INLINE FoundRange scan(const float* x, std::size_t n) {
  const Reals d;
  const std::size_t lanes = hn::Lanes(d);
  const auto zero = hn::Zero(d);
  hn::Vec<Reals> low[2] = {zero, zero}, high[2] = {zero, zero}, nothing = zero;
  const auto take = [&](hn::Vec<Reals> value, std::size_t part) HWY_ATTR {
    if constexpr (kFilter)
      value = hn::IfThenElseZero(hn::Eq(value, value), value);
    else
      nothing = hn::MulAdd(value, zero, nothing);  // NaN after NaN and infinity
    low[part] = hn::Min(low[part], value);
    high[part] = hn::Max(high[part], value);
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    take(hn::LoadU(d, x + i), 0);
    take(hn::LoadU(d, x + i + lanes), 1);
  }
  for (; i < n; i += lanes) take(hn::LoadN(d, x + i, n - i), 0);
  return {hn::ReduceMin(d, hn::Min(low[0], low[1])), hn::ReduceMax(d, hn::Max(high[0], high[1])),
          !hn::AllTrue(d, hn::Eq(nothing, zero))};
}

/// The least and the largest of the numbers and 0.
HWY_NOINLINE std::pair<float, float> range_of(const float* x, std::int64_t count) {
  FoundRange found = scan<false>(x, static_cast<std::size_t>(count));
  if (found.suspect) found = scan<true>(x, static_cast<std::size_t>(count));
  return {found.low, found.high};
}

constexpr std::size_t kAtOnce = 4;  // vectors of floats, whose bytes fill one

/// How numbers are rounded.
struct Steps {
  hn::Vec<Reals> scale, by, least, most;
  hn::Vec<Whole> zero;
};

/// A quotient that is rounded correctly. NaN, also that of infinities, becomes the zero point.
HWY_NOINLINE hn::Vec<Whole> divided(hn::Vec<Reals> x, const Steps& steps) {
  auto value = hn::Div(x, steps.scale);
  value = hn::IfThenElseZero(hn::Eq(value, value), value);
  return hn::NearestInt(hn::Min(hn::Max(value, steps.least), steps.most));
}

/// Products with 1 / scale, unless one is so close to a half that its quotient might be rounded to
/// another integer.
HWY_INLINE hn::Vec<Bytes> rounded(const hn::Vec<Reals> (&x)[kAtOnce], const Steps& steps) {
  const Reals d;
  const hn::Repartition<std::int16_t, Reals> shorts;
  const hn::RebindToUnsigned<Reals> bits;
  hn::Vec<Whole> whole[kAtOnce];
  auto off = hn::Zero(bits);  // of positive numbers as integers: those of NaN are the largest
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kAtOnce; ++v) {
    const auto near = hn::Mul(x[v], steps.by);
    whole[v] = hn::NearestInt(near);
    const auto distance = hn::Abs(hn::Sub(near, hn::ConvertTo(d, whole[v])));
    off = hn::Max(off, hn::BitCast(bits, distance));
  }
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(hn::BitCast(d, off), hn::Set(d, 0.499F)))))
    for (std::size_t v = 0; v < kAtOnce; ++v) whole[v] = divided(x[v], steps);
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kAtOnce; ++v) whole[v] = hn::Add(whole[v], steps.zero);
  return hn::OrderedDemote2To(Bytes(), hn::OrderedDemote2To(shorts, whole[0], whole[1]),
                              hn::OrderedDemote2To(shorts, whole[2], whole[3]));
}

HWY_NOINLINE void quantize_part(const float* x, std::int64_t count, float scale, float zero,
                                std::uint8_t* y) {
  const Reals d;
  const auto n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(d), step = kAtOnce * lanes;
  // A product with 1 / scale is as good as 3 units of 255, where neither is out of range.
  const bool normal = scale > 1e-30F && scale < 1e30F;
  const Steps steps{hn::Set(d, scale),
                    hn::Set(d, normal ? 1.0F / scale : std::numeric_limits<float>::quiet_NaN()),
                    hn::Set(d, -zero), hn::Set(d, 255.0F - zero),
                    hn::Set(Whole(), static_cast<std::int32_t>(zero))};
  std::size_t i = 0;
  hn::Vec<Reals> values[kAtOnce];
  for (; i + step <= n; i += step) {
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kAtOnce; ++v) values[v] = hn::LoadU(d, x + i + v * lanes);
    hn::StoreU(rounded(values, steps), Bytes(), y + i);
  }
  if (i == n) return;
  for (std::size_t v = 0; v < kAtOnce; ++v) {
    const std::size_t at = i + v * lanes;
    values[v] = at < n ? hn::LoadN(d, x + at, n - at) : hn::Zero(d);
  }
  hn::StoreN(rounded(values, steps), Bytes(), y + i, n - i);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {
namespace {

using Range = std::pair<float, float>;

Range range(const float* x, std::int64_t count) { CTXGEN_DISPATCH(range_of(x, count)); }
void quantize(const float* x, std::int64_t count, float scale, float zero, std::uint8_t* y) {
  CTXGEN_DISPATCH(quantize_part(x, count, scale, zero, y));
}

constexpr std::int64_t kPart = 16 * 1024;  // elements that are worth a thread

/// Of all elements, in at most 64 parts.
Range whole_range(const DynamicQuantize& q, Workers& workers) {
  constexpr std::int64_t kMostParts = 64;
  const std::int64_t length = std::max(kPart, q.count / kMostParts + 1);
  const std::int64_t parts = (q.count + length - 1) / length;
  std::array<Range, kMostParts> found{};
  const auto part = [&](std::int64_t i) {
    found[static_cast<std::size_t>(i)] =
        range(q.x + i * length, std::min(length, q.count - i * length));
  };
  if (parts > 1)
    workers.parallel_for(parts, part);
  else if (parts == 1)
    part(0);
  Range all;
  for (const auto& [low, high] : found)
    all = {std::min(all.first, low), std::max(all.second, high)};
  return all;
}

}  // namespace

void dynamic_quantize(const DynamicQuantize& q, Workers& workers) {
  const auto [low, high] = whole_range(q, workers);
  const float scale = high == low ? 1.0F : (high - low) / 255.0F;
  const float least = -low / scale;  // NaN where both are infinite, or nothing
  const float zero = std::isnan(least) ? 0.0F : std::nearbyint(std::clamp(least, 0.0F, 255.0F));
  *q.scale = scale;
  *q.zero = static_cast<std::uint8_t>(zero);
  const auto part = [&](std::int64_t i) {
    quantize(q.x + i * kPart, std::min(kPart, q.count - i * kPart), scale, zero, q.y + i * kPart);
  };
  const std::int64_t parts = (q.count + kPart - 1) / kPart;
  if (parts > 1)
    workers.parallel_for(parts, part);
  else if (parts == 1)
    part(0);
}

}  // namespace ctxgen::kernels
#endif
