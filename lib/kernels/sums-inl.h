// Sums over rows. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_SUMS_INL_H
#undef CTXGEN_KERNELS_SUMS_INL_H
#else
#define CTXGEN_KERNELS_SUMS_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Elements whose sum is kept in float: at most 64 per lane, so that rounding does not grow with the
/// length of a row. Sums of these are added in double.
HWY_INLINE std::size_t run_length() { return 4 * 64 * hn::Lanes(Tag()); }

struct Sums {
  double values = 0, squares = 0;
};

/// Sums of x - pivot and of its square for n <= run_length() elements; those of x where `kPlain`, and
/// then without the squares.
template <bool kPlain>
HWY_INLINE Sums sums_of_run(std::size_t n, const float* in, float pivot) {
  const Tag d;
  const std::size_t lanes = hn::Lanes(d);
  const Vector from = constant(pivot), zero = hn::Zero(d);
  Vector s0 = zero, s1 = zero, s2 = zero, s3 = zero, q0 = zero, q1 = zero, q2 = zero, q3 = zero;
  const auto take = [&](Vector x, Vector& s, Vector& q) HWY_ATTR {
    if constexpr (!kPlain) {
      x = hn::Sub(x, from);
      q = hn::MulAdd(x, x, q);
    }
    s = hn::Add(s, x);
  };
  std::size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    take(hn::LoadU(d, in + i), s0, q0);
    take(hn::LoadU(d, in + i + lanes), s1, q1);
    take(hn::LoadU(d, in + i + 2 * lanes), s2, q2);
    take(hn::LoadU(d, in + i + 3 * lanes), s3, q3);
  }
  for (; i + lanes <= n; i += lanes) take(hn::LoadU(d, in + i), s0, q0);
  if (i < n) take(hn::LoadNOr(from, d, in + i, n - i), s1, q1);  // the pivot itself adds nothing
  const Vector s = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
  const Vector q = hn::Add(hn::Add(q0, q1), hn::Add(q2, q3));
  return {double{hn::ReduceSum(d, s)}, kPlain ? 0 : double{hn::ReduceSum(d, q)}};
}

/// The same for any n.
template <bool kPlain>
HWY_INLINE Sums sums_of(std::size_t n, const float* in, float pivot) {
  const std::size_t run = run_length();
  Sums all;
  for (std::size_t i = 0; i < n; i += run) {
    const Sums part = sums_of_run<kPlain>(HWY_MIN(run, n - i), in + i, pivot);
    all.values += part.values;
    all.squares += part.squares;
  }
  return all;
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
