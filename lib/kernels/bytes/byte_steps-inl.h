// Rows of bytes times tiles of columns, two groups at a time: in sums of 16 bits where these hold them, else by pairs, else
// by products of 16 bits. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_STEPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_STEPS_INL_H
#undef CTXGEN_KERNELS_BYTE_STEPS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_STEPS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "bytes/bit_list.h"
#include "bytes/byte_limits.h"
#include "bytes/byte_pairs-inl.h"
#include "bytes/byte_rows.h"
#include "prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// A step is two groups. The products of four elements of a column with bytes of up to `most` stay within 16 bits,
/// whatever their order, if the positive elements times `most` do and the negative ones, too: limits of the matrix say
/// so. `most` is that of a block of rows: few activations are near 255, even where some are.
struct SteppedBytes {
  static constexpr std::size_t kGroupBytes = 4;
};
constexpr std::size_t kStepRowBytes = 8, kStepWordBytes = 2 * kByteWordRow;

/// to[s] = the largest byte of step s of rows [0, rows), `stride` bytes from one to the next.
HWY_NOINLINE inline void find_largest(const std::uint8_t* from, std::int64_t rows,
                                      std::int64_t stride, std::int64_t steps, std::uint8_t* to) {
  const Bytes d;
  const hn::Repartition<std::uint64_t, Bytes> wide;
  const hn::Rebind<std::uint8_t, decltype(wide)> narrow;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  for (std::int64_t s = 0; s < steps; s += lanes) {
    const auto count = static_cast<std::size_t>(std::min(lanes, steps - s));
    auto most = hn::Zero(d);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint8_t* at = from + row * stride + s * 8;
      most =
          hn::Max(most, count * 8 == hn::Lanes(d) ? hn::LoadU(d, at) : hn::LoadN(d, at, count * 8));
    }
    const auto folded = [&](auto shifted)
                            HWY_ATTR { return hn::Max(most, hn::BitCast(d, shifted)); };
    most = folded(hn::ShiftRight<32>(hn::BitCast(wide, most)));
    most = folded(hn::ShiftRight<16>(hn::BitCast(wide, most)));
    most = folded(hn::ShiftRight<8>(hn::BitCast(wide, most)));
    hn::StoreN(hn::TruncateTo(narrow, hn::BitCast(wide, most)), narrow, to + s, count);
  }
}

/// Steps of a line, a bit each, by the way in which they are multiplied.
struct StepWays {
  std::uint64_t together, pairs, any;
};
constexpr std::int64_t kStepsAtOnce = 64;

/// Of `count` steps of kVectors vectors of columns: by the largest bytes of some rows, and by the lines of limits, of `steps`
/// bytes each, of the halves of a tile from the first column's on that the vectors reach into.
template <std::size_t kVectors>
HWY_INLINE StepWays ways_of(const std::uint8_t* largest, const std::uint8_t* limits,
                            std::int64_t steps, std::int64_t count) {
  constexpr std::size_t kHalves = (kVectors * kByteLanes + kLimitColumns - 1) / kLimitColumns;
  const Bytes d;
  std::uint64_t together = 0, fit = 0;
  for (std::int64_t s = 0; s < count; s += static_cast<std::int64_t>(hn::MaxLanes(d))) {
    const auto most = hn::LoadU(d, largest + s);
    auto of_fours = hn::LoadU(d, limits + s), of_pairs = hn::LoadU(d, limits + steps + s);
    for (std::size_t half = 1; half < kHalves; ++half) {
      const std::uint8_t* next = limits + 2 * steps * static_cast<std::int64_t>(half) + s;
      of_fours = hn::Min(of_fours, hn::LoadU(d, next));
      of_pairs = hn::Min(of_pairs, hn::LoadU(d, next + steps));
    }
    together |= std::uint64_t{hn::BitsFromMask(d, hn::Le(most, of_fours))} << s;
    fit |= std::uint64_t{hn::BitsFromMask(d, hn::Le(most, of_pairs))} << s;
  }
  const std::uint64_t all = ~std::uint64_t{0} >> (kStepsAtOnce - count);
  together &= all;
  fit |= together;
  return {together, fit & all & ~together, all & ~fit};
}

#if HWY_TARGET == HWY_AVX2
/// Adds the products of a step of a row and two vectors of columns in 16 bits, or of its pairs: by[0] and by[1] are the first
/// group's, by[2] and the vector at `last` the second one's. What compilers make of the same takes 1.04 times as long (g++ 16,
/// Intel Xeon), for pairs, whose sums they leave in memory, 1.2 times.
template <bool kPairs>
HWY_INLINE void add_row_of_step(const std::uint8_t* row, const hn::Vec<SignedBytes> (&by)[3],
                                const std::byte* last, hn::Vec<Shorts> ones,
                                hn::Vec<Ints> (&sum)[2]) {
  using Four = std::uint8_t[4];
  using Vector = std::byte[32];
  decltype(ones.raw) first, second, one, other;
  auto sum0 = sum[0].raw, sum1 = sum[1].raw;  // in an array they stay in memory
  __asm__(
      "vpbroadcastd %[four], %[first]\n\t"
      "vpbroadcastd %[next], %[second]\n\t"
      "vpmaddubsw %[by0], %[first], %[one]\n\t"
      "vpmaddubsw %[by2], %[second], %[other]\n\t"
      "vpmaddubsw %[by1], %[first], %[first]\n\t"
      "vpmaddubsw %[by3], %[second], %[second]"
      : [first] "=&x"(first), [second] "=&x"(second), [one] "=&x"(one), [other] "=&x"(other)
      : [four] "m"(*reinterpret_cast<const Four*>(row)),
        [next] "m"(*reinterpret_cast<const Four*>(row + 4)), [by0] "x"(by[0].raw),
        [by1] "x"(by[1].raw), [by2] "x"(by[2].raw),
        [by3] "m"(*reinterpret_cast<const Vector*>(last)));
  if constexpr (kPairs)
    __asm__(
        "vpmaddwd %[ones], %[one], %[one]\n\t"
        "vpmaddwd %[ones], %[other], %[other]\n\t"
        "vpmaddwd %[ones], %[first], %[first]\n\t"
        "vpmaddwd %[ones], %[second], %[second]\n\t"
        "vpaddd %[one], %[sum0], %[sum0]\n\t"
        "vpaddd %[first], %[sum1], %[sum1]\n\t"
        "vpaddd %[other], %[sum0], %[sum0]\n\t"
        "vpaddd %[second], %[sum1], %[sum1]"
        : [first] "+x"(first), [second] "+x"(second), [one] "+x"(one), [other] "+x"(other),
          [sum0] "+x"(sum0), [sum1] "+x"(sum1)
        : [ones] "x"(ones.raw));
  else
    __asm__(
        "vpaddw %[other], %[one], %[one]\n\t"
        "vpaddw %[second], %[first], %[first]\n\t"
        "vpmaddwd %[ones], %[one], %[one]\n\t"
        "vpmaddwd %[ones], %[first], %[first]\n\t"
        "vpaddd %[one], %[sum0], %[sum0]\n\t"
        "vpaddd %[first], %[sum1], %[sum1]"
        : [first] "+x"(first), [one] "+x"(one), [sum0] "+x"(sum0), [sum1] "+x"(sum1)
        : [second] "x"(second), [other] "x"(other), [ones] "x"(ones.raw));
  sum[0].raw = sum0;
  sum[1].raw = sum1;
}
#endif

/// Adds the products of a step in 16 bits, or of its pairs.
template <bool kPairs, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_step(const RowPointers<kRows>& rows, const std::byte* words,
                         hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const Shorts d;
  const auto ones = hn::Set(d, 1);
#if HWY_TARGET == HWY_AVX2
  if constexpr (kVectors == 2) {
    const hn::Vec<SignedBytes> by[3] = {load_signed(words, 0), load_signed(words, 1),
                                        load_signed(words + kByteWordRow, 0)};
    const std::byte* last = words + kByteWordRow + kByteLanes * 4;
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      add_row_of_step<kPairs>(rows.row(r), by, last, ones, sum[r]);
    });
    return;
  }
#endif
  if constexpr (kPairs) {
    add_pairs(rows, 0, words, sum);
    add_pairs(rows, 4, words + kByteWordRow, sum);
    return;
  }
  hn::Vec<SignedBytes> by[2][kVectors];
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    by[0][v] = load_signed(words, v);
    by[1][v] = load_signed(words + kByteWordRow, v);
  });
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const auto first = hn::BitCast(Bytes(), spread_four(rows.row(r)));
    const auto second = hn::BitCast(Bytes(), spread_four(rows.row(r) + 4));
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const auto both = hn::Add(hn::SatWidenMulPairwiseAdd(d, first, by[0][v]),
                                hn::SatWidenMulPairwiseAdd(d, second, by[1][v]));
      add_kept(sum[r][v], hn::WidenMulPairwiseAdd(Ints(), both, ones));
    });
  });
}

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void copy_sums(const hn::Vec<Ints> (&from)[kRows][kVectors],
                          hn::Vec<Ints> (&to)[kRows][kVectors]) {
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { to[r][v] = from[r][v]; });
  });
}

/// Adds the products of any steps, a bit each. Apart from the others, whose sums stay in registers.
template <std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void add_any_steps(std::uint64_t steps, const RowPointers<kRows>& rows,
                                const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  for (; steps != 0; steps &= steps - 1) {
    const auto s = static_cast<std::size_t>(std::countr_zero(steps));
    add_group(rows, s * kStepRowBytes, words + s * kStepWordBytes, sum);
    add_group(rows, s * kStepRowBytes + 4, words + s * kStepWordBytes + kByteWordRow, sum);
  }
}

/// The largest bytes of some rows, a byte per step, and the first line of limits of their columns.
struct StepBounds {
  const std::uint8_t *largest, *limits;
};

/// sum[r][v] of kRows rows and kVectors vectors of columns. Asks for a cache line per step at `ahead`.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void sum_steps(std::int64_t groups, const StepBounds& bounds, RowPointers<kRows> rows,
                          const std::byte* words, const std::byte* ahead,
                          hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sum[r][v] = hn::Zero(Ints()); });
  });
  const std::int64_t steps = groups / 2;
  for (std::int64_t line = 0; line < steps; line += kStepsAtOnce) {
    const std::int64_t count = std::min(kStepsAtOnce, steps - line);
    const StepWays ways =
        ways_of<kVectors>(bounds.largest + line, bounds.limits + line, steps, count);
    const std::byte* asked = ahead;
    const auto take = [&]<bool kPairs>(std::size_t s) HWY_ATTR {
      auto at = rows;
      at.advance(s * kStepRowBytes);
      prefetch_second(asked);
      asked += kLineBytes;
      add_step<kPairs>(at, words + s * kStepWordBytes, sum);
    };
    if (std::popcount(ways.together) == count) {
      HWY_UNROLL(2)
      for (std::size_t s = 0; s < static_cast<std::size_t>(count); ++s)
        take.template operator()<false>(s);
    } else {
      const auto end = static_cast<std::uint64_t>(count);
      const BitList together(ways.together, end), pairs(ways.pairs, end);
      HWY_UNROLL(1)  // whether their number is even is not foreseen
      for (const std::uint8_t s : together) take.template operator()<false>(s);
      HWY_UNROLL(1)
      for (const std::uint8_t s : pairs) take.template operator()<true>(s);
    }
    if (HWY_UNLIKELY(ways.any != 0)) {
      hn::Vec<Ints> kept[kRows][kVectors];  // only these are in memory
      copy_sums(sum, kept);
      add_any_steps(ways.any, rows, words, kept);
      copy_sums(kept, sum);
    }
    words += static_cast<std::size_t>(count) * kStepWordBytes;
    ahead += static_cast<std::size_t>(count) * kLineBytes;
    rows.advance(static_cast<std::size_t>(count) * kStepRowBytes);
  }
  if (groups % 2 != 0) add_group(rows, 0, words, sum);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
