#include "ctxgen/kernels/byte_points.h"

#include <algorithm>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_points.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bytes/byte_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Units of x, any number; NaN becomes the least.
HWY_INLINE hn::Vec<Ints> units_of(hn::Vec<Floats> x) {
  const Floats d;
  const auto most = hn::Set(d, 0x1.fffffep30F);
  x = hn::IfThenElse(hn::Gt(x, most), most, x);
#if !HWY_ARCH_X86
  const auto least = hn::Set(d, -0x1p31F);
  x = hn::IfThenElse(hn::Ge(x, least), x, least);
#endif
  return hn::ConvertInRangeTo(Ints(), x);
}

/// The bytes of units(i), a vector of numbers from element i on, and where these do not decide of number(i, count).
template <class Units, class Number>
HWY_INLINE void round_all(const ByteSteps& steps, std::int32_t margin, bool usable,
                          std::int64_t count, std::uint8_t* out, const Units& units,
                          const Number& number) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  const auto divide = [&](std::int64_t first, std::int64_t end) HWY_ATTR {
    for (std::int64_t i = first; i < end; i += lanes) {
      const auto left = static_cast<std::size_t>(std::min(end - i, lanes));
      store_bytes(steps, number(i, left), left, out + i);
    }
  };
  std::int64_t i = 0;
  ByteRounder rounder(steps, margin);
  const ByteRounder::Both bytes;
  for (; usable && i + 4 * lanes <= count; i += 4 * lanes) {
    rounder.reset();
    const auto low = rounder.held(units(i), units(i + lanes));
    const auto high = rounder.held(units(i + 2 * lanes), units(i + 3 * lanes));
    if (!rounder.is_sure()) {  // nothing is written yet: `out` may be what is read
      divide(i, i + 4 * lanes);
      continue;
    }
    hn::StoreU(low, bytes, out + i);
    hn::StoreU(high, bytes, out + i + 2 * lanes);
  }
  divide(i, count);
}

HWY_NOINLINE void round_numbers(const ByteSteps& steps, std::int64_t count, const float* in,
                                std::uint8_t* out) {
  // Both quotients round once, this one's factor and its sum with what shifts it, too: by 2^-24 of 257 each, and of 515.
  constexpr std::int32_t kMargin = 7;
  const Floats d;
  const bool usable = steps.scale >= 0x1p-60F && steps.scale <= 0x1p60F;
  const auto factor = hn::Set(d, 0x1p16F / steps.scale);
  const auto shift =
      hn::Set(d, 0x1p16F * (static_cast<float>(steps.zero) + 0.5F) + static_cast<float>(kMargin));
  round_all(
      steps, kMargin, usable, count, out,
      [&](std::int64_t i)
          HWY_ATTR { return units_of(hn::MulAdd(hn::LoadU(d, in + i), factor, shift)); },
      [&](std::int64_t i, std::size_t left) HWY_ATTR { return hn::LoadN(d, in + i, left); });
}

template <bool kSigned>
HWY_INLINE hn::Vec<Floats> whole_numbers(const std::uint8_t* from) {
  using Byte = std::conditional_t<kSigned, std::int8_t, std::uint8_t>;
  const hn::Rebind<Byte, Ints> bytes;
  const auto values = hn::LoadU(bytes, reinterpret_cast<const Byte*>(from));
  return hn::ConvertTo(Floats(), hn::PromoteTo(Ints(), values));
}

/// The first `count` lanes of a term.
HWY_INLINE hn::Vec<Floats> term_of(const ByteTerm& term, std::int64_t i, std::size_t count) {
  const Floats d;
  const Ints di;
  const hn::Rebind<std::uint8_t, Ints> bytes;
  const hn::Rebind<std::int8_t, Ints> signed_bytes;
  const auto read = hn::LoadN(bytes, term.bytes + i, count);
  const auto value =
      term.is_signed ? hn::PromoteTo(di, hn::BitCast(signed_bytes, read)) : hn::PromoteTo(di, read);
  const auto less = hn::Sub(value, hn::Set(di, term.zero));
  auto scaled = hn::Mul(hn::ConvertTo(d, less), hn::Set(d, term.scale));
  CTXGEN_KEEP(scaled);  // rounded, not joined with the sum
  return scaled;
}

/// What decides the bytes of a sum: a * a_factor + (b * b_factor + shift), in units.
struct SumFactors {
  SumFactors(const ByteTerm& a, const ByteTerm& b, const ByteSteps& steps) {
    const double unit = 0x1p16 / double{steps.scale};
    const double by_a = double{a.scale} * unit, by_b = double{b.scale} * unit;
    // The largest terms in units of bytes. With u = 2^-24 and |x| <= 257: both terms of the reference are within u of
    // themselves, sum and quotient within u |x|; here the factors are within u, the shift within u (A + B + 257), the inner sum
    // within u (A + 2 B + 257) and the outer one within u (|x| + 257.5).
    const double most = 256 * (by_a + by_b) / 0x1p16;
    usable =
        steps.scale >= 0x1p-60F && steps.scale <= 0x1p60F && most <= 4096 && by_a > 0 && by_b > 0;
    if (!usable) return;
    margin = static_cast<std::int32_t>((5 * most + 6 * 258) / 256) + 2;
    a_factor = static_cast<float>(by_a);
    b_factor = static_cast<float>(by_b);
    shift =
        static_cast<float>(0x1p16 * (steps.zero + 0.5) + margin - by_a * a.zero - by_b * b.zero);
  }
  bool usable = false;
  std::int32_t margin = 0;
  float a_factor = 0, b_factor = 0, shift = 0;
};

template <bool kASigned, bool kBSigned>
HWY_NOINLINE void add_terms(const ByteTerm& a, const ByteTerm& b, const ByteSteps& steps,
                            std::int64_t count, std::uint8_t* out) {
  const Floats d;
  const SumFactors by(a, b, steps);
  const auto a_factor = hn::Set(d, by.a_factor), b_factor = hn::Set(d, by.b_factor);
  const auto shift = hn::Set(d, by.shift);
  round_all(
      steps, by.margin, by.usable, count, out,
      [&](std::int64_t i) HWY_ATTR {
        const auto inner = hn::MulAdd(whole_numbers<kBSigned>(b.bytes + i), b_factor, shift);
        const auto x = hn::MulAdd(whole_numbers<kASigned>(a.bytes + i), a_factor, inner);
        return hn::ConvertInRangeTo(Ints(), x);  // terms up to 4096 bytes
      },
      [&](std::int64_t i, std::size_t left)
          HWY_ATTR { return hn::Add(term_of(a, i, left), term_of(b, i, left)); });
}

HWY_NOINLINE void add_all(const ByteTerm& a, const ByteTerm& b, const ByteSteps& steps,
                          std::int64_t count, std::uint8_t* out) {
  if (a.is_signed) {
    if (b.is_signed) return add_terms<true, true>(a, b, steps, count, out);
    return add_terms<true, false>(a, b, steps, count, out);
  }
  if (b.is_signed) return add_terms<false, true>(a, b, steps, count, out);
  add_terms<false, false>(a, b, steps, count, out);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void round_to_bytes(const ByteSteps& steps, std::int64_t count, const float* in,
                    std::uint8_t* out) {
  CTXGEN_DISPATCH(round_numbers(steps, count, in, out));
}

void add_to_bytes(const ByteTerm& a, const ByteTerm& b, const ByteSteps& steps, std::int64_t count,
                  std::uint8_t* out) {
  CTXGEN_DISPATCH(add_all(a, b, steps, count, out));
}

}  // namespace ctxgen::kernels
#endif
