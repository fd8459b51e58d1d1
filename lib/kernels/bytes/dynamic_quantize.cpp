#include "ctxgen/kernels/dynamic_quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ctxgen/kernels/lane_share.h"

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

constexpr std::size_t kAtOnce = 4;  // vectors of floats, whose bytes fill one

template <bool kFilter>
HWY_INLINE FoundRange scan(const float* x, std::size_t n) {
  const Reals d;
  const std::size_t lanes = hn::Lanes(d), step = kAtOnce * lanes;
  const auto zero = hn::Zero(d);
  // Of their own for each vector: a chain of multiply-adds waits for itself.
  hn::Vec<Reals> low[kAtOnce], high[kAtOnce], nothing[kAtOnce];
  for (std::size_t v = 0; v < kAtOnce; ++v) low[v] = high[v] = nothing[v] = zero;
  const auto take = [&](hn::Vec<Reals> value, std::size_t part) HWY_ATTR {
    if constexpr (kFilter)
      value = hn::IfThenElseZero(hn::Eq(value, value), value);
    else
      nothing[part] = hn::MulAdd(value, zero, nothing[part]);  // NaN after NaN and infinity
    low[part] = hn::Min(low[part], value);
    high[part] = hn::Max(high[part], value);
  };
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kAtOnce; ++v) take(hn::LoadU(d, x + i + v * lanes), v);
  }
  for (; i < n; i += lanes) take(hn::LoadN(d, x + i, n - i), 0);
  for (std::size_t v = 1; v < kAtOnce; ++v) {
    low[0] = hn::Min(low[0], low[v]);
    high[0] = hn::Max(high[0], high[v]);
    nothing[0] = hn::Add(nothing[0], nothing[v]);
  }
  return {hn::ReduceMin(d, low[0]), hn::ReduceMax(d, high[0]),
          !hn::AllTrue(d, hn::Eq(nothing[0], zero))};
}

/// The least and the largest of the numbers and 0.
HWY_NOINLINE std::pair<float, float> range_of(const float* x, std::int64_t count) {
  FoundRange found = scan<false>(x, static_cast<std::size_t>(count));
  if (found.suspect) found = scan<true>(x, static_cast<std::size_t>(count));
  return {found.low, found.high};
}

/// How numbers are rounded.
struct Steps {
  hn::Vec<Reals> scale, by, least, most;
  hn::Vec<Whole> zero;
};

HWY_INLINE hn::Vec<Bytes> narrowed(const hn::Vec<Whole> (&whole)[kAtOnce]) {
  const hn::Repartition<std::int16_t, Reals> shorts;
  return hn::OrderedDemote2To(Bytes(), hn::OrderedDemote2To(shorts, whole[0], whole[1]),
                              hn::OrderedDemote2To(shorts, whole[2], whole[3]));
}

/// Quotients that are rounded correctly. NaN, also that of infinities, becomes the zero point.
HWY_NOINLINE void divide(const float* x, const Steps& steps, std::uint8_t* y) {
  const Reals d;
  hn::Vec<Whole> whole[kAtOnce];
  for (std::size_t v = 0; v < kAtOnce; ++v) {
    auto value = hn::Div(hn::LoadU(d, x + v * hn::Lanes(d)), steps.scale);
    value = hn::IfThenElseZero(hn::Eq(value, value), value);
    value = hn::Min(hn::Max(value, steps.least), steps.most);
    whole[v] = hn::Add(hn::NearestInt(value), steps.zero);
  }
  hn::StoreU(narrowed(whole), Bytes(), y);
}

/// Products with 1 / scale, unless one is so close to a half that its quotient might be rounded to
/// another integer. Their size is 255 at most: added to 3 * 2^22, they are rounded to integers, which are the
/// lower bits of the sum.
HWY_INLINE void round_step(const float* x, const Steps& steps, std::uint8_t* y) {
  const Reals d;
  const hn::RebindToUnsigned<Reals> bits;
  const auto large = hn::Set(d, 12582912.0F);
  const auto to_zero = hn::Sub(steps.zero, hn::BitCast(Whole(), large));
  hn::Vec<Whole> whole[kAtOnce];
  auto off = hn::Zero(bits);  // of positive numbers as integers: those of NaN are the largest
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < kAtOnce; ++v) {
    const auto value = hn::LoadU(d, x + v * hn::Lanes(d));
    const auto sum = hn::MulAdd(value, steps.by, large);
    const auto distance = hn::Abs(hn::MulSub(value, steps.by, hn::Sub(sum, large)));
    off = hn::Max(off, hn::BitCast(bits, distance));
    whole[v] = hn::Add(hn::BitCast(Whole(), sum), to_zero);
  }
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Lt(hn::BitCast(d, off), hn::Set(d, 0.4999F)))))
    return divide(x, steps, y);
  hn::StoreU(narrowed(whole), Bytes(), y);
}

HWY_NOINLINE void quantize_part(const float* x, std::int64_t count, float scale, float zero,
                                std::uint8_t* y) {
  const Reals d;
  const auto n = static_cast<std::size_t>(count);
  const std::size_t step = kAtOnce * hn::Lanes(d);
  // A product with 1 / scale is as good as 3 units of 255 (5e-5), where neither is out of range.
  const bool normal = scale > 1e-30F && scale < 1e30F;
  const Steps steps{hn::Set(d, scale),
                    hn::Set(d, normal ? 1.0F / scale : std::numeric_limits<float>::quiet_NaN()),
                    hn::Set(d, -zero), hn::Set(d, 255.0F - zero),
                    hn::Set(Whole(), static_cast<std::int32_t>(zero))};
  std::size_t i = 0;
  for (; i + step <= n; i += step) round_step(x + i, steps, y + i);
  if (i == n) return;
  HWY_ALIGN float last[kAtOnce * hn::MaxLanes(d)] = {};
  HWY_ALIGN std::uint8_t rounded[kAtOnce * hn::MaxLanes(d)];
  std::copy_n(x + i, n - i, last);
  round_step(last, steps, rounded);
  std::copy_n(rounded, n - i, y + i);
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

constexpr std::int64_t kMostParts = 64;

/// As many as there are elements worth a thread, kMostParts at most; an even number, so that two threads get as many.
std::int64_t parts_of(std::int64_t count) {
  constexpr std::int64_t kPart = 16 * 1024;
  if (count <= kPart) return 1;
  return std::min((count / kPart + 2) / 2 * 2, kMostParts);
}

/// Calls task(part, its elements) for all parts.
template <class Task>
void for_parts(std::int64_t count, Workers& workers, const Task& task) {
  const std::int64_t parts = parts_of(count);
  const auto part = [&](std::int64_t i) { task(i, lane_share(count, parts, i)); };
  if (parts > 1) return workers.parallel_for(parts, part);
  part(0);
}

/// Of all elements.
Range whole_range(const DynamicQuantize& q, Workers& workers) {
  std::array<Range, kMostParts> found{};
  for_parts(q.count, workers, [&](std::int64_t i, const LaneShare& part) {
    found[static_cast<std::size_t>(i)] = range(q.x + part.first, part.end - part.first);
  });
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
  for_parts(q.count, workers, [&](std::int64_t, const LaneShare& part) {
    quantize(q.x + part.first, part.end - part.first, scale, zero, q.y + part.first);
  });
}

}  // namespace ctxgen::kernels
#endif
