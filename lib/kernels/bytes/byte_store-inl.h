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

// (sum * scale + bias) / step, each operation rounded, differs from x = sum * factor + addend by less than
// 2^-24 * (6 |x| + 4 |addend|) as long as nothing overflows or underflows: eight roundings (seven where x is rounded
// once), by 2^-24 of numbers that are at most |x| + |addend|. So both become the same whole number, unless x is that
// near to the middle of two or both pass every bound: |x| is at most 256 where they do not.

/// What makes bytes of the sums of two vectors of columns.
struct ByteFactors {
  hn::Vec<Floats> factor[2], addend[2];
  bool usable = true;  // nothing overflows or underflows
  float sure = 0.5F;   // how far from a whole number x is that becomes it for sure

  HWY_INLINE void set(std::size_t v, hn::Vec<Floats> scale, hn::Vec<Floats> bias, float step) {
    constexpr float kMostAddend = 4096.0F;
    const Floats d;
    const auto least = hn::Set(d, 0x1p-60F), most = hn::Set(d, 0x1p60F);
    const auto by = hn::Set(d, step), size = hn::Abs(scale);
    factor[v] = hn::Div(scale, by);
    addend[v] = hn::Div(bias, by);
    const auto usual = hn::And(hn::Ge(size, least), hn::Le(size, most));
    const auto fits = hn::And(hn::Or(usual, hn::Eq(size, hn::Zero(d))),
                              hn::Le(hn::Abs(addend[v]), hn::Set(d, kMostAddend)));
    usable = usable && step >= 0x1p-60F && step <= 0x1p60F && hn::AllTrue(d, fits);
    if (!usable) return;
    const float largest = hn::ReduceMax(d, hn::Abs(addend[v]));
    sure = std::min(sure, 0.5F - 0x1p-24F * (6 * 260 + 5 * largest));
  }
};

/// Makes bytes of sums by factors.
struct ByteRounder {
  explicit HWY_INLINE ByteRounder(const ByteSteps& steps)
      : unit(hn::Set(Ints(), kUnitBits - steps.zero)),
        least(hn::Set(Shorts(), static_cast<std::int16_t>(steps.least + steps.zero))),
        most(hn::Set(Shorts(), static_cast<std::int16_t>(steps.most + steps.zero))) {}

  /// x rounded to even, plus the zero point; any number beyond all bounds for one that is.
  HWY_INLINE hn::Vec<Ints> whole(hn::Vec<Floats> x) {
    const Floats d;
    // Adding it leaves whole numbers in the low bits of the sum, which rise with them.
    const auto shift = hn::Set(d, kUnit);
    x = hn::Max(x, hn::Set(d, -0x1p20F));
    const auto moved = hn::Add(x, shift);
    farthest = hn::Max(farthest, hn::Abs(hn::Sub(x, hn::Sub(moved, shift))));
    return hn::Sub(hn::BitCast(Ints(), moved), unit);
  }
  /// The bytes of two vectors of whole numbers, the first `count` or all of them.
  HWY_INLINE void store(hn::Vec<Ints> first, hn::Vec<Ints> second, std::size_t count,
                        std::uint8_t* to) const {
    const Shorts d;
    const hn::Repartition<std::uint16_t, Shorts> words;
    const hn::Rebind<std::uint8_t, Shorts> bytes;
    const auto held = hn::Min(hn::Max(hn::OrderedDemote2To(d, first, second), least), most);
    const auto low = hn::TruncateTo(bytes, hn::BitCast(words, held));  // whatever their sign
    if (count >= hn::Lanes(d))
      hn::StoreU(low, bytes, to);
    else
      hn::StoreN(low, bytes, to, count);
  }
  /// Whether all numbers since reset() were far from the middle between two.
  [[nodiscard]] HWY_INLINE bool is_sure(float distance) const {
    return hn::AllTrue(Floats(), hn::Lt(farthest, hn::Set(Floats(), distance)));
  }
  HWY_INLINE void reset() { farthest = hn::Zero(Floats()); }

  static constexpr float kUnit = 0x1.8p23F;
  static constexpr std::int32_t kUnitBits = 0x4B400000;
  hn::Vec<Ints> unit;
  hn::Vec<Shorts> least, most;
  hn::Vec<Floats> farthest = hn::Zero(Floats());
};

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
