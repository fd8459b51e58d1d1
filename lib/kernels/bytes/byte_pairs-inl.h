// The products of a group, four elements, of rows of bytes and of columns: those whose pairs fit into 16 bits, and any.
// Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_PAIRS_INL_H
#undef CTXGEN_KERNELS_BYTE_PAIRS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_PAIRS_INL_H
#endif

#include <hwy/highway.h>

#include "bytes/byte_sums-inl.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

HWY_INLINE hn::Vec<SignedBytes> load_signed(const std::byte* words, std::size_t v) {
  return hn::LoadU(SignedBytes(), reinterpret_cast<const std::int8_t*>(words) + v * kByteLanes * 4);
}

/// Adds the products of a group whose pairs fit, `offset` bytes after the beginning of the rows.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_pairs(const RowPointers<kRows>& rows, std::size_t offset,
                          const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const auto ones = hn::Set(Shorts(), 1);
  hn::Vec<SignedBytes> by[kVectors];
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { by[v] = load_signed(words, v); });
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const auto four = hn::BitCast(Bytes(), spread_four(rows.row(r) + offset));
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const auto pairs = hn::SatWidenMulPairwiseAdd(Shorts(), four, by[v]);
      add_kept(sum[r][v], hn::WidenMulPairwiseAdd(Ints(), pairs, ones));
    });
  });
}

/// Adds the products of the even or the odd elements of any group.
template <bool kOdd, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_every_second(const RowPointers<kRows>& rows, std::size_t offset,
                                 const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const Shorts d;
  const hn::RebindToUnsigned<Shorts> du;
  hn::Vec<Shorts> by[kVectors];
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto word = hn::BitCast(d, load_signed(words, v));
    by[v] = hn::ShiftRight<8>(kOdd ? word : hn::ShiftLeft<8>(word));
  });
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const auto four = hn::BitCast(du, spread_four(rows.row(r) + offset));
    const auto half =
        hn::BitCast(d, kOdd ? hn::ShiftRight<8>(four) : hn::And(four, hn::Set(du, 255)));
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      add_kept(sum[r][v], hn::WidenMulPairwiseAdd(Ints(), by[v], half));
    });
  });
}

/// Adds the products of any group.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_group(const RowPointers<kRows>& rows, std::size_t offset,
                          const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  add_every_second<false>(rows, offset, words, sum);
  add_every_second<true>(rows, offset, words, sum);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
