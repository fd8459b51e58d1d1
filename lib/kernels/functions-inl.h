// Functions of vectors. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_FUNCTIONS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_FUNCTIONS_INL_H
#undef CTXGEN_KERNELS_FUNCTIONS_INL_H
#else
#define CTXGEN_KERNELS_FUNCTIONS_INL_H
#endif

#include <hwy/highway.h>

// Polynomials are fits by bench/kernels/fit_polynomials.py, which prints their errors.
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
using Vector = hn::Vec<Tag>;

HWY_INLINE Vector constant(float value) { return hn::Set(Tag(), value); }

/// c[0] + c[1] x + c[2] x^2 + ... in pairs of terms, so that fewer products wait for each other
/// (Estrin's scheme).
template <class... Coefficients>
HWY_INLINE Vector polynomial(Vector x, Coefficients... coefficients) {
  constexpr std::size_t kCount = sizeof...(Coefficients);
  const float c[kCount] = {coefficients...};
  const Vector square = hn::Mul(x, x);
  std::size_t i = kCount - 1;
  Vector sum = constant(c[i]);
  if constexpr (kCount % 2 == 0) sum = hn::MulAdd(sum, x, constant(c[--i]));
  for (; i > 0; i -= 2)
    sum = hn::MulAdd(sum, square, hn::MulAdd(constant(c[i - 1]), x, constant(c[i - 2])));
  return sum;
}

// AVX-512 has instructions for both of what follows, and Highway has the first from 1.3 on.
#undef CTXGEN_HAS_SCALE
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && (HWY_MAJOR > 1 || HWY_MINOR >= 3)
#define CTXGEN_HAS_SCALE 1
#else
#define CTXGEN_HAS_SCALE 0
#endif

/// max(low, x), and NaN of NaN.
HWY_INLINE Vector at_least(Vector low, Vector x) {
#if HWY_ARCH_X86
  return hn::Max(low, x);  // MAXPS gives its second operand where one is NaN
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

/// min(high, x), and NaN of NaN.
HWY_INLINE Vector at_most(Vector high, Vector x) {
#if HWY_ARCH_X86
  return hn::Min(high, x);
#else
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
}

/// 2^n of whole n in [-126, 127].
HWY_INLINE Vector power_of_two(hn::Vec<hn::RebindToSigned<Tag>> n) {
  const hn::RebindToSigned<Tag> integers;
  return hn::BitCast(Tag(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(integers, 127))));
}

/// A whole number n in [-126, 128] and 2^n, which is infinity for 128 without AVX-512. Sums with 1.5 * 2^23 are rounded to whole numbers
/// and have them in their lowest bits; 127 more, and these bits are the exponent of 2^n.
struct Whole {
  Vector n;
#if CTXGEN_HAS_SCALE
  HWY_INLINE Vector scale(Vector x) const { return hn::MulByFloorPow2(x, n); }
#else
  Vector biased;
  HWY_INLINE Vector scale(Vector x) const {
    const hn::RebindToSigned<Tag> integers;
    const auto bits = hn::ShiftLeft<23>(hn::BitCast(integers, biased));
    return hn::Mul(x, hn::BitCast(Tag(), bits));
  }
#endif
};

/// The nearest whole number to x * factor.
HWY_INLINE Whole nearest_to(Vector x, Vector factor) {
#if CTXGEN_HAS_SCALE
  return {hn::Round(hn::Mul(x, factor))};
#else
  const Vector bias = constant(12582912.0F + 127.0F);
  const Vector biased = hn::MulAdd(x, factor, bias);
  return {hn::Sub(biased, bias), biased};
#endif
}

/// The same for whole n in [-252, 254]: 2^n in two factors, which reach denormal numbers and infinity.
HWY_INLINE Vector scale(Vector x, Vector n) {
#if CTXGEN_HAS_SCALE
  return hn::MulByFloorPow2(x, n);
#else
  const auto whole = hn::ConvertTo(hn::RebindToSigned<Tag>(), n);
  const auto half = hn::ShiftRight<1>(whole);
  return hn::Mul(hn::Mul(x, power_of_two(half)), power_of_two(hn::Sub(whole, half)));
#endif
}

/// 1 / x of x in [1, 2^100], to 0.6 ulp. With AVX-512 an estimate of 14 bits and a step of Newton's, which
/// take a quarter of a division's time.
HWY_INLINE Vector reciprocal_of(Vector x) {
#if CTXGEN_HAS_SCALE
  const Vector y = hn::ApproximateReciprocal(x);
  return hn::MulAdd(y, hn::NegMulAdd(x, y, constant(1.0F)), y);
#else
  return hn::Div(constant(1.0F), x);
#endif
}

constexpr float kLog2E = 1.44269504F;

/// exp(x - n ln(2)) for n near x / ln(2); ln(2) in two parts, the first of which times n is exact (Cody and Waite,
/// Software Manual for the Elementary Functions, 1980). |x| must be below 2^20.
HWY_INLINE Vector exp_of_rest(Vector x, Vector n) {
  const Vector high = hn::NegMulAdd(n, constant(0.693359375F), x);
  const Vector r = hn::NegMulAdd(n, constant(-2.12194440e-4F), high);
  const Vector tail =
      polynomial(r, 0.49999994F, 0.166665211F, 0.041668389F, 0.00836871006F, 0.00138146128F);
  return hn::Add(constant(1.0F), hn::MulAdd(hn::Mul(r, r), tail, r));
}

/// exp(x) for x in [-87.33, 89], infinity from 88.38 on without AVX-512, and NaN of NaN.
HWY_INLINE Vector exp_within(Vector x) {
  const Whole whole = nearest_to(x, constant(kLog2E));
  return whole.scale(exp_of_rest(x, whole.n));
}

/// exp(x) for all x.
HWY_INLINE Vector exp_of(Vector x) {
  const Vector bounded = at_most(constant(89.0F), at_least(constant(-104.0F), x));
  const Vector n = hn::Round(hn::Mul(bounded, constant(kLog2E)));
  return scale(exp_of_rest(bounded, n), n);
}

/// 2^y for y in [-126, 127], and NaN of NaN.
HWY_INLINE Vector exp2_within(Vector y) {
  const Whole whole = nearest_to(y, constant(1.0F));
  const Vector f = hn::Sub(y, whole.n);
  const Vector p = polynomial(f, 0.693147182F, 0.240226477F, 0.0555033237F, 0.00961843692F,
                              0.00133988739F, 0.00015353362F);
  return whole.scale(hn::MulAdd(f, p, constant(1.0F)));
}

constexpr float kTailEnd = 5.75F;  // beyond, t * tail(t) is below 3e-8

/// erfc(t / sqrt(2)) for t in [0, kTailEnd].
HWY_INLINE Vector tail_of(Vector t) {
  const Vector p =
      polynomial(t, -1.15111101F, -0.459162146F, -0.0526276119F, 0.00724542141F, -0.000272075791F,
                 -0.000131473207F, 2.80569366e-05F, -1.90206538e-06F);
  return exp2_within(hn::Mul(t, p));
}

/// max(x, 0) - t erfc(t / sqrt(2)) / 2 with t = |x|: no two terms cancel.
HWY_INLINE Vector gelu_erf_of(Vector x) {
  const Vector zero = hn::Zero(Tag());
  const Vector t = hn::Min(hn::Abs(x), constant(kTailEnd));
  const Vector lost = hn::Mul(hn::Mul(t, constant(0.5F)), tail_of(t));
  const Vector near = hn::Sub(hn::Max(x, zero), lost);
  const Vector far = hn::IfThenElse(hn::Gt(x, zero), x, hn::Mul(x, zero));  // NaN of NaN and -inf
  return hn::IfThenElse(hn::Le(hn::Abs(x), constant(kTailEnd)), near, far);
}

/// x as 2^n m with m in [sqrt(1/2), sqrt(2)): n ln(2) + log(m), which is exact to the last digit where
/// x is a power of two. ln(2) in two parts as in exp_of_rest().
HWY_INLINE Vector log_of(Vector x) {
  const Tag d;
  const hn::RebindToSigned<Tag> integers;
  constexpr float kSmallest = 1.17549435e-38F;  // smaller ones have no exponent of their own
  const auto tiny = hn::Lt(x, constant(kSmallest));
  const auto bits = hn::BitCast(integers, hn::IfThenElse(tiny, hn::Mul(x, constant(0x1p24F)), x));
  const auto root = hn::BitCast(integers, constant(0.707106769F));
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, root));
  const Vector r = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n))), constant(1.0F));
  const Vector whole = hn::Sub(hn::ConvertTo(d, n), hn::IfThenElseZero(tiny, constant(24.0F)));
  const Vector square = hn::Mul(r, r);
  const Vector p =
      polynomial(r, 0.333333135F, -0.250000089F, 0.200021192F, -0.166679963F, 0.142195523F,
                 -0.124055892F, 0.11888162F, -0.116756521F, 0.0674664006F);
  Vector tail = hn::Mul(hn::Mul(square, r), p);
  tail = hn::MulAdd(whole, constant(-2.12194440e-4F), hn::NegMulAdd(square, constant(0.5F), tail));
  const Vector value = hn::MulAdd(whole, constant(0.693359375F), hn::Add(r, tail));
  const Vector zero = hn::Zero(d);
  const Vector limit = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(hn::Inf(d)), hn::NaN(d));
  const Vector above = hn::IfThenElse(hn::Lt(x, hn::Inf(d)), value, x);
  return hn::IfThenElse(hn::Gt(x, zero), above, limit);
}

/// Results that would be denormal are 0, but for x in [-88.38, -87.34] without AVX-512: making and reading them takes many times as long.
HWY_INLINE Vector logistic_of(Vector x) {
#if CTXGEN_HAS_SCALE
  // With e = exp(-|x|), which does not overflow, 1 / (1 + e), or e / (1 + e) below 0.
  const Vector least = constant(-87.33654F);
  const Vector t = hn::Neg(hn::Abs(x));
  const auto lost = hn::Lt(t, least);
  const Vector e = hn::IfThenZeroElse(lost, exp_within(at_least(least, t)));
  const Vector r = reciprocal_of(hn::Add(constant(1.0F), e));
  return hn::IfNegativeThenElse(x, hn::Mul(e, r), r);
#else
  const Vector e = exp_within(at_most(constant(89.0F), at_least(constant(-87.0F), hn::Neg(x))));
  return hn::Div(constant(1.0F), hn::Add(constant(1.0F), e));
#endif
}

/// (1 + tanh(u)) / 2 is logistic(2 u).
HWY_INLINE Vector gelu_tanh_of(Vector x) {
  constexpr float kTwice = 1.59576912F;  // 2 sqrt(2 / pi)
  const Vector u =
      hn::Mul(x, hn::MulAdd(hn::Mul(x, x), constant(0.044715F * kTwice), constant(kTwice)));
  return hn::Mul(x, logistic_of(u));
}

/// By a polynomial near 0, where 1 - 2 / (exp(2 x) + 1) would lose digits.
HWY_INLINE Vector tanh_of(Vector x) {
  const Vector t = hn::Abs(x);
  const Vector square = hn::Mul(x, x);
  const Vector p = polynomial(square, -0.333332807F, 0.133314416F, -0.0537397154F, 0.0206390861F,
                              -0.00570498686F);
  const Vector near = hn::MulAdd(hn::Mul(square, x), p, x);
  const Vector e = exp_within(at_most(constant(30.0F), hn::Add(t, t)));
  const Vector far =
      hn::NegMulAdd(constant(2.0F), reciprocal_of(hn::Add(e, constant(1.0F))), constant(1.0F));
  return hn::IfThenElse(hn::Lt(t, constant(0.625F)), near, hn::CopySign(far, x));
}

HWY_INLINE Vector erf_of(Vector x) {
  const Vector t = hn::Abs(x);
  const Vector p = polynomial(hn::Mul(x, x), 1.12837923F, -0.376126319F, 0.112836875F,
                              -0.0268589407F, 0.00519990642F, -0.000813001185F, 8.31677171e-05F);
  const Vector scaled = at_most(constant(kTailEnd), hn::Mul(t, constant(1.41421356F)));
  const Vector far = hn::CopySign(hn::Sub(constant(1.0F), tail_of(scaled)), x);
  return hn::IfThenElse(hn::Lt(t, constant(0.93F)), hn::Mul(x, p), far);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
