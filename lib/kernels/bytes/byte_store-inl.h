// Real numbers that become bytes again. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_STORE_INL_H
#undef CTXGEN_KERNELS_BYTE_STORE_INL_H
#else
#define CTXGEN_KERNELS_BYTE_STORE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "ctxgen/kernels/byte_product.h"

#include "dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// The first `count` lanes, or all.
HWY_INLINE void store_bytes(const ByteSteps& steps, hn::Vec<Floats> value, std::size_t count,
                            std::uint8_t* to) {
  const Floats d;
  const Ints di;
  const hn::Rebind<std::uint8_t, Ints> bytes;
  value = hn::Div(value, hn::Set(d, steps.scale));
  const auto held = hn::Min(hn::Max(value, hn::Set(d, static_cast<float>(steps.least))),
                            hn::Set(d, static_cast<float>(steps.most)));
  const auto whole = hn::Add(hn::NearestInt(held), hn::Set(di, steps.zero));
  const auto low = hn::TruncateTo(bytes, hn::BitCast(Words(), whole));  // whatever their sign
  if (count >= hn::Lanes(d))
    hn::StoreU(low, bytes, to);
  else
    hn::StoreN(low, bytes, to, count);
}

// Let r be (sum * scale + bias) / step, each operation rounded, and x = sum * (scale / step) + bias / step, in units of
// bytes. With u = 2^-24 and |addend| of x: r is within u (3 |x| + |addend|) of the real number, as long as nothing overflows or
// underflows; x within u (|x| + 2 |addend|) by its factors, u (|x| + |addend| + 515) by adding what shifts it, and less than 2^-16
// by being cut to whole units of 2^-16. |x| is at most 257 where not both pass every bound. So the bytes are the same unless x is
// within kUnits + |addend| / 64 such units of the middle of two.

/// Makes such factors: 2^16 times the byte, plus what makes rounding of cutting, plus the margin.
class ByteScaling {
 public:
  explicit HWY_INLINE ByteScaling(const ByteSteps& steps)
      : by_(hn::Set(Floats(), steps.scale)),
        usable_(steps.scale >= 0x1p-60F && steps.scale <= 0x1p60F),
        shift_(0x1p16F * (static_cast<float>(steps.zero) + 0.5F)) {}

  HWY_INLINE void divide(hn::Vec<Floats> scale, hn::Vec<Floats> bias, hn::Vec<Floats>& factor,
                         hn::Vec<Floats>& addend) {
    constexpr float kMostAddend = 4096.0F;
    const Floats d;
    const auto size = hn::Abs(scale);
    factor = hn::Mul(hn::Div(scale, by_), hn::Set(d, 0x1p16F));
    addend = hn::Div(bias, by_);
    const auto usual =
        hn::And(hn::Ge(size, hn::Set(d, 0x1p-60F)), hn::Le(size, hn::Set(d, 0x1p60F)));
    const auto fits = hn::And(hn::Or(usual, hn::Eq(size, hn::Zero(d))),
                              hn::Le(hn::Abs(addend), hn::Set(d, kMostAddend)));
    usable_ = usable_ && hn::AllTrue(d, fits);
    largest_ = hn::Max(largest_, hn::Abs(addend));
  }
  /// Whether nothing overflows or underflows. What follows requires it.
  [[nodiscard]] HWY_INLINE bool usable() const { return usable_; }
  [[nodiscard]] HWY_INLINE std::int32_t margin() const {
    constexpr float kUnits = 9.0F;
    return static_cast<std::int32_t>(kUnits + hn::ReduceMax(Floats(), largest_) / 64) + 1;
  }
  /// The addend, of a quotient by divide().
  [[nodiscard]] HWY_INLINE hn::Vec<Floats> shifted(hn::Vec<Floats> addend,
                                                   std::int32_t margin) const {
    const Floats d;
    return hn::MulAdd(addend, hn::Set(d, 0x1p16F), hn::Set(d, shift_ + static_cast<float>(margin)));
  }

 private:
  hn::Vec<Floats> by_, largest_ = hn::Zero(Floats());
  bool usable_;
  float shift_;
};

/// Whether no sum of so many products of bytes, times its factor, plus its addend, passes an integer.
HWY_INLINE bool units_are_bounded(std::int64_t products, hn::Vec<Floats> factor,
                                  hn::Vec<Floats> addend) {
  constexpr std::int64_t kLargest = 255 * 128, kMost = 0x7FFFFFFF / kLargest;
  if (products > kMost) return false;
  const Floats d;
  const float most = hn::ReduceMax(d, hn::Abs(factor)) * static_cast<float>(products * kLargest);
  return most + hn::ReduceMax(d, hn::Abs(addend)) < 0x1p30F;
}

/// What makes bytes of the sums of two vectors of columns.
struct ByteFactors {
  hn::Vec<Floats> factor[2], addend[2];
  bool usable;
  std::int32_t margin = 0;

  HWY_INLINE ByteFactors(const hn::Vec<Floats> (&scale)[2], const hn::Vec<Floats> (&bias)[2],
                         const ByteSteps& steps) {
    ByteScaling scaling(steps);
    for (std::size_t v = 0; v < 2; ++v) scaling.divide(scale[v], bias[v], factor[v], addend[v]);
    usable = scaling.usable();
    if (!usable) return;
    margin = scaling.margin();
    for (auto& value : addend) value = scaling.shifted(value, margin);
  }
};

/// Makes bytes of sums by factors.
struct ByteRounder {
  using Parts = hn::RebindToUnsigned<Shorts>;  // of two vectors of numbers

  HWY_INLINE ByteRounder(const ByteSteps& steps, std::int32_t margin)
      : least(hn::Set(Shorts(), static_cast<std::int16_t>(steps.least + steps.zero))),
        most(hn::Set(Shorts(), static_cast<std::int16_t>(steps.most + steps.zero))),
        unsure(hn::Set(Parts(), static_cast<std::uint16_t>(2 * margin))) {}

  /// In units of 2^-16, of which none passes an integer.
  static HWY_INLINE hn::Vec<Ints> bounded_units(const ByteFactors& by, std::size_t v,
                                                hn::Vec<Ints> sum) {
    const auto x = hn::MulAdd(hn::ConvertTo(Floats(), sum), by.factor[v], by.addend[v]);
    return hn::ConvertInRangeTo(Ints(), x);
  }
  /// In units of 2^-16; any number beyond all bounds for one that is.
  static HWY_INLINE hn::Vec<Ints> units(const ByteFactors& by, std::size_t v, hn::Vec<Ints> sum) {
    return any_units(hn::MulAdd(hn::ConvertTo(Floats(), sum), by.factor[v], by.addend[v]));
  }
  static HWY_INLINE hn::Vec<Ints> any_units(hn::Vec<Floats> x) {
    const Floats d;
    x = hn::Min(x, hn::Set(d, 0x1.fffffep30F));
#if !HWY_ARCH_X86  // where what is below all integers becomes the least one
    x = hn::Max(x, hn::Set(d, -0x1p31F));
#endif
    return hn::ConvertInRangeTo(Ints(), x);
  }
  /// The bytes of two vectors of units, the first `count` or all of them.
  HWY_INLINE void store(hn::Vec<Ints> first, hn::Vec<Ints> second, std::size_t count,
                        std::uint8_t* to) {
    const Both bytes;
    const auto low = held(first, second);
    if (count >= hn::Lanes(bytes))
      hn::StoreU(low, bytes, to);
    else
      hn::StoreN(low, bytes, to, count);
  }
  /// The first `count` bytes of each, or all; those of the second one `stride` bytes after the others.
  HWY_INLINE void store_each(hn::Vec<Ints> first, hn::Vec<Ints> second, std::size_t count,
                             std::uint8_t* to, std::int64_t stride) {
    const hn::Half<Both> half;
    const auto low = held(first, second);
    hn::StoreN(hn::LowerHalf(half, low), half, to, count);
    hn::StoreN(hn::UpperHalf(half, low), half, to + stride, count);
  }
  /// Whether all numbers since reset() were far from the middle between two.
  [[nodiscard]] HWY_INLINE bool is_sure() const {
    return hn::AllTrue(Parts(), hn::Ge(nearest, unsure));
  }
  HWY_INLINE void reset() { nearest = hn::Set(Parts(), 0xFFFF); }

  using Both = hn::Rebind<std::uint8_t, Shorts>;  // bytes of two vectors of numbers
  HWY_INLINE hn::Vec<Both> held(hn::Vec<Ints> first, hn::Vec<Ints> second) {
    const Shorts d;
    const Parts parts;
    const auto one = hn::BitCast(parts, first), other = hn::BitCast(parts, second);
    nearest = hn::Min(nearest, hn::ConcatEven(parts, other, one));
    const auto whole = hn::BitCast(d, hn::ConcatOdd(parts, other, one));
    const auto bounded = hn::Min(hn::Max(whole, least), most);
    return hn::TruncateTo(Both(), hn::BitCast(parts, bounded));  // whatever their sign
  }

  hn::Vec<Shorts> least, most;
  hn::Vec<Parts> unsure, nearest = hn::Set(Parts(), 0xFFFF);
};

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
