// Rows of integers as floats. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_QUANTISED_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_QUANTISED_ROWS_INL_H
#undef CTXGEN_KERNELS_QUANTISED_ROWS_INL_H
#else
#define CTXGEN_KERNELS_QUANTISED_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include "ctxgen/kernels/quantised_rows.h"

#include "functions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// to[i] = integers[i] * scale for whole vectors of `count` integers.
HWY_INLINE void widen_bytes(const std::int8_t* integers, const float* scales, bool per_element,
                            std::int64_t count, float* to) {
  const Tag d;
  const hn::Rebind<std::int32_t, Tag> whole;
  const hn::Rebind<std::int8_t, Tag> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < count; i += lanes) {
    const Vector x = hn::ConvertTo(d, hn::PromoteTo(whole, hn::LoadU(narrow, integers + i)));
    const Vector by = per_element ? hn::LoadU(d, scales + i) : hn::Set(d, scales[0]);
    hn::StoreU(hn::Mul(x, by), d, to + i);
  }
}

/// A row of `size` numbers.
HWY_NOINLINE void widen_row(const QuantisedForm& form, const float* scales, std::int64_t size,
                            const std::byte* from, float* to) {
  constexpr std::int64_t kAtOnce =
      32;  // two vectors of 16 bytes of the first halves and the second ones
  const auto scale_of = [&](std::int64_t i) { return scales[form.per_element ? i : 0]; };
  const auto* bytes = reinterpret_cast<const std::int8_t*>(from);
  std::int64_t i = 0;
  if (form.bits != 4) {
    const std::int64_t whole = size / kAtOnce * kAtOnce;
    widen_bytes(bytes, scales, form.per_element, whole, to);
    for (i = whole; i < size; ++i) to[i] = static_cast<float>(bytes[i]) * scale_of(i);
    return;
  }
  const hn::FixedTag<std::uint8_t, kAtOnce / 2> d;
  const hn::Repartition<std::int8_t, decltype(d)> integers;
  const auto low = hn::Set(d, 15), offset = hn::Set(d, 8);
  HWY_ALIGN std::int8_t unpacked[kAtOnce];
  for (; i + kAtOnce <= size; i += kAtOnce) {
    const auto packed = hn::LoadU(d, reinterpret_cast<const std::uint8_t*>(from) + i / 2);
    const auto even = hn::Sub(hn::And(packed, low), offset);
    const auto odd = hn::Sub(hn::And(hn::ShiftRight<4>(packed), low), offset);
    hn::StoreU(hn::BitCast(integers, hn::InterleaveLower(d, even, odd)), integers, unpacked);
    hn::StoreU(hn::BitCast(integers, hn::InterleaveUpper(d, even, odd)), integers,
               unpacked + kAtOnce / 2);
    widen_bytes(unpacked, form.per_element ? scales + i : scales, form.per_element, kAtOnce,
                to + i);
  }
  for (; i < size; ++i) {
    const auto byte = static_cast<int>(from[i / 2]);
    to[i] = static_cast<float>((byte >> (i % 2 * 4) & 15) - 8) * scale_of(i);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
