#include "ctxgen/kernels/activate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "activate.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Two vectors at a time: the long chains of one wait while the other one's run.
template <class Function>
HWY_INLINE void each(std::int64_t count, const float* in, float* out, const Function& function) {
  const Tag d;
  const auto n = static_cast<std::size_t>(count);
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const Vector a = function(hn::LoadU(d, in + i));
    const Vector b = function(hn::LoadU(d, in + i + lanes));
    hn::StoreU(a, d, out + i);
    hn::StoreU(b, d, out + i + lanes);
  }
  for (; i + lanes <= n; i += lanes) hn::StoreU(function(hn::LoadU(d, in + i)), d, out + i);
  if (i < n) hn::StoreN(function(hn::LoadN(d, in + i, n - i)), d, out + i, n - i);
}

HWY_NOINLINE void apply(Activation function, float alpha, std::int64_t n, const float* in,
                        float* out) {
  switch (function) {
    case Activation::kErf: return each(n, in, out, [](Vector x) HWY_ATTR { return erf_of(x); });
    case Activation::kExp: return each(n, in, out, [](Vector x) HWY_ATTR { return exp_of(x); });
    case Activation::kGeluErf:
      return each(n, in, out, [](Vector x) HWY_ATTR { return gelu_erf_of(x); });
    case Activation::kGeluTanh:
      return each(n, in, out, [](Vector x) HWY_ATTR { return gelu_tanh_of(x); });
    case Activation::kLog: return each(n, in, out, [](Vector x) HWY_ATTR { return log_of(x); });
    case Activation::kLogistic:
      return each(n, in, out, [](Vector x) HWY_ATTR { return logistic_of(x); });
    case Activation::kSwish: {
      const Vector factor = constant(alpha);
      return each(n, in, out, [factor](Vector x) HWY_ATTR {
        return hn::Mul(x, logistic_of(hn::Mul(factor, x)));
      });
    }
    case Activation::kTanh: return each(n, in, out, [](Vector x) HWY_ATTR { return tanh_of(x); });
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void activate(Activation function, float alpha, std::int64_t n, const float* in, float* out) {
  CTXGEN_DISPATCH(apply(function, alpha, n, in, out));
}

}  // namespace ctxgen::kernels
#endif
