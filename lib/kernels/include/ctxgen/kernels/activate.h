#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// Element-wise functions that need an exponential or a logarithm. Errors are the largest found against double
/// precision, on AVX2 and AVX-512, by tests/unit/kernels.
///
/// All give NaN for NaN, GELUs and kSwish also for -inf, where their formulas have -inf * 0. Denormal
/// results may be 0.
enum class Activation : std::uint8_t {
  kErf,      // 3 ulp
  kExp,      // 2 ulp; inf above 88.72, 0 below -103.97
  kGeluErf,  // x * (1 + erf(x / sqrt(2))) / 2: 3e-7 for |x| <= 10, 2 ulp beyond
  kGeluTanh,  // the same with tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) for erf: 5 ulp for x >= 0, 1e-6
  kLog,       // 1 ulp, the nearest float for powers of 2; -inf of 0, NaN below
  kLogistic,  // 1 / (1 + exp(-x)): 3 ulp
  kSwish,     // x * logistic(alpha * x): 4 ulp for alpha = 1 and x >= -80
  kTanh,      // 2 ulp
};

/// out[i] = f(in[i]) for i < n; `out` may be `in`, no other overlap. `alpha` is read by kSwish only.
///
/// Threads  any; the calling one does all the work.
void activate(Activation function, float alpha, std::int64_t n, const float* in, float* out);

}  // namespace ctxgen::kernels
