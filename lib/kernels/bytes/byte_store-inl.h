// Real numbers that become bytes again. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_STORE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_STORE_INL_H
#undef CTXGEN_KERNELS_BYTE_STORE_INL_H
#else
#define CTXGEN_KERNELS_BYTE_STORE_INL_H
#endif

#include <hwy/highway.h>

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

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
