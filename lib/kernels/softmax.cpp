#include "ctxgen/kernels/softmax.h"

#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// The largest element, NaN where there is one: comparisons pass over NaN, a sum does not.
HWY_INLINE float largest(std::size_t n, const float* in) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector least = constant(-std::numeric_limits<float>::infinity());
  Vector most[2] = {least, least};
  auto nan = hn::FirstN(d, 0);
  const auto take = [&](Vector x, std::size_t part) HWY_ATTR {
    most[part] = hn::Max(most[part], x);
    nan = hn::Or(nan, hn::IsNaN(x));
  };
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    take(hn::LoadU(d, in + i), 0);
    take(hn::LoadU(d, in + i + lanes), 1);
  }
  for (; i + lanes <= n; i += lanes) take(hn::LoadU(d, in + i), 0);
  if (i < n) take(hn::LoadNOr(least, d, in + i, n - i), 1);
  if (!hn::AllFalse(d, nan)) return std::numeric_limits<float>::quiet_NaN();
  return hn::ReduceMax(d, hn::Max(most[0], most[1]));
}

/// out = exp(in - most), and the sum of that. Below exp's range the result is 0 as near as makes no
/// difference to the sum, and exactly 0 for -inf.
HWY_INLINE float exponentials(std::size_t n, const float* in, float most, float* out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector shift = constant(most), low = constant(-87.0F);
  const auto value = [&](Vector x) HWY_ATTR {
    const Vector below = hn::Sub(x, shift);
    return hn::IfThenElseZero(hn::Ge(below, low), exp_within(hn::Max(below, low)));
  };
  Vector sum[2] = {hn::Zero(d), hn::Zero(d)};
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Vector a = value(hn::LoadU(d, in + i)), b = value(hn::LoadU(d, in + i + lanes));
    sum[0] = hn::Add(sum[0], a);
    sum[1] = hn::Add(sum[1], b);
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) {
    const Vector a = value(hn::LoadU(d, in + i));
    sum[0] = hn::Add(sum[0], a);
    hn::StoreU(a, d, out + i);
  }
  if (i < n) {
    const Vector a = value(hn::LoadN(d, in + i, n - i));
    sum[1] = hn::Add(sum[1], hn::IfThenElseZero(hn::FirstN(d, n - i), a));
    hn::StoreN(a, d, out + i, n - i);
  }
  return hn::ReduceSum(d, hn::Add(sum[0], sum[1]));
}

HWY_INLINE void scale(std::size_t n, float factor, float* out) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector by = constant(factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, out + i), by), d, out + i);
  for (; i < n; ++i) out[i] *= factor;
}

HWY_NOINLINE void softmax(std::int64_t count, const float* in, float* out) {
  const auto n = static_cast<std::size_t>(count);
  const float most = largest(n, in);
  if (!(most < std::numeric_limits<float>::infinity()) ||
      most == -std::numeric_limits<float>::infinity()) {
    for (std::size_t i = 0; i < n; ++i) out[i] = std::numeric_limits<float>::quiet_NaN();
    return;
  }
  scale(n, 1.0F / exponentials(n, in, most, out), out);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void softmax_row(std::int64_t n, const float* in, float* out) {
  CTXGEN_DISPATCH(softmax(n, in, out));
}

}  // namespace ctxgen::kernels
#endif
