// Rows of bytes times tiles of 32 columns of bytes by products whose pairs are added in 16 bits, which
// saturate: exact, because only pairs that fit are multiplied so. Compiled once per instruction set, so
// without a plain include guard.
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

/// By products of bytes where their pairs fit, else by products of 16 bits. A group of a row is four bytes.
struct PairedBytes {
  static constexpr std::size_t kGroupBytes = 4;
};

/// The groups of some columns of a tile, those whose pairs fit first.
struct GroupOrder {
  static constexpr std::int64_t kMostGroups = 4096;
  std::size_t fitting = 0, count = 0;
  std::uint16_t at[kMostGroups];
};

HWY_INLINE hn::Vec<SignedBytes> load_signed(const std::byte* words, std::size_t v) {
  return hn::LoadU(SignedBytes(), reinterpret_cast<const std::int8_t*>(words) + v * kByteLanes * 4);
}

/// Whether each pair of a group's elements, times bytes of up to 255, stays within 16 bits.
template <std::size_t kVectors>
HWY_INLINE bool pairs_fit(const std::byte* words) {
  const Shorts d;
  const auto ones = hn::Set(Bytes(), 1);
  const auto zero = hn::Zero(SignedBytes());
  auto most = hn::Zero(d), least = hn::Zero(d);
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto word = load_signed(words, v);
    most = hn::Max(most, hn::SatWidenMulPairwiseAdd(d, ones, hn::Max(word, zero)));
    least = hn::Min(least, hn::SatWidenMulPairwiseAdd(d, ones, hn::Min(word, zero)));
  });
  constexpr std::int16_t kMost = 128;  // 255 * 128 = 2^15 - 128
  return hn::AllFalse(d,
                      hn::Or(hn::Gt(most, hn::Set(d, kMost)), hn::Lt(least, hn::Set(d, -kMost))));
}

/// Requires  groups <= kMostGroups.
template <std::size_t kVectors>
HWY_NOINLINE void order_groups(const std::byte* words, std::int64_t groups, GroupOrder& order) {
  std::uint16_t others[GroupOrder::kMostGroups];
  std::size_t other_count = 0;
  order.fitting = 0;
  for (std::int64_t i = 0; i < groups; ++i, words += kByteWordRow) {
    const bool fits = pairs_fit<kVectors>(words);
    order.at[order.fitting] = others[other_count] = static_cast<std::uint16_t>(i);
    order.fitting += fits ? 1 : 0;
    other_count += fits ? 0 : 1;
  }
  hwy::CopyBytes(others, order.at + order.fitting, other_count * sizeof(std::uint16_t));
  order.count = static_cast<std::size_t>(groups);
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

/// sum[r][v] of kRows rows and kVectors vectors of columns of a tile, whose groups `order` names.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void sum_ordered(const GroupOrder& order, const RowPointers<kRows>& rows,
                            const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sum[r][v] = hn::Zero(Ints()); });
  });
  std::size_t i = 0;
  for (; i < order.fitting; ++i) {
    const std::size_t group = order.at[i];
    add_pairs(rows, group * PairedBytes::kGroupBytes, words + group * kByteWordRow, sum);
  }
  for (; i < order.count; ++i) {
    const std::size_t offset = order.at[i] * PairedBytes::kGroupBytes;
    const std::byte* group = words + order.at[i] * kByteWordRow;
    add_every_second<false>(rows, offset, group, sum);
    add_every_second<true>(rows, offset, group, sum);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
