// Rows of bytes times tiles of columns, two groups at a time in sums of 16 bits where these hold them. Compiled once
// per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_STEPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_STEPS_INL_H
#undef CTXGEN_KERNELS_BYTE_STEPS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_STEPS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>

#include "bytes/byte_pairs-inl.h"
#include "bytes/byte_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// A step is two groups. The products of four elements of a column with bytes of up to `most` stay within 16 bits,
/// whatever their order, if the positive elements times `most` do and the negative ones, too. `most` is that of a
/// block of rows: few activations are near 255, even where some are.
struct SteppedBytes {
  static constexpr std::size_t kGroupBytes = 4;
  static constexpr std::int64_t kMostSteps = 2048;
};

/// allowed[s]: how large bytes may be by which 16 bits hold the sums of step s of some columns.
struct StepLimits {
  std::uint8_t allowed[SteppedBytes::kMostSteps + kStepsOfLine];
};

/// kLargestBytes[sum]: the largest byte by which a sum of elements stays within 16 bits.
inline constexpr auto kLargestBytes = [] {
  std::array<std::uint8_t, 4 * 128 + 1> largest{};
  for (int sum = 0; sum < static_cast<int>(largest.size()); ++sum)
    largest[static_cast<std::size_t>(sum)] =
        static_cast<std::uint8_t>(sum <= 128 ? 255 : 32767 / sum);
  return largest;
}();

/// Requires  steps <= kMostSteps.
template <std::size_t kVectors>
HWY_NOINLINE void find_limits(const std::byte* words, std::int64_t steps, StepLimits& limits) {
  const Shorts d;
  const auto ones = hn::Set(Bytes(), 1);
  const auto zero = hn::Zero(SignedBytes());
  for (std::int64_t s = 0; s < steps; ++s, words += 2 * kByteWordRow) {
    auto most = hn::Zero(d);
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const auto first = load_signed(words, v), second = load_signed(words + kByteWordRow, v);
      const auto both = [&](auto a, auto b) HWY_ATTR {
        return hn::Add(hn::SatWidenMulPairwiseAdd(d, ones, a),
                       hn::SatWidenMulPairwiseAdd(d, ones, b));
      };
      most = hn::Max(most, both(hn::Max(first, zero), hn::Max(second, zero)));
      most = hn::Max(most, hn::Neg(both(hn::Min(first, zero), hn::Min(second, zero))));
    });
    limits.allowed[s] = kLargestBytes[static_cast<std::size_t>(hn::ReduceMax(d, most))];
  }
}

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

/// Which of the steps from a line's first one on are beyond their limits, a bit each.
constexpr std::int64_t kStepsAtOnce = hn::MaxLanes(Bytes());
HWY_INLINE std::uint64_t steps_beyond(const std::uint8_t* largest, const std::uint8_t* allowed,
                                      std::int64_t count) {
  const Bytes d;
  const auto beyond = hn::Gt(hn::LoadU(d, largest), hn::LoadU(d, allowed));
  return hn::BitsFromMask(d, hn::And(beyond, hn::FirstN(d, static_cast<std::size_t>(count))));
}

/// Adds the products of a step in 16 bits.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_step(const RowPointers<kRows>& rows, const std::byte* words,
                         hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const Shorts d;
  const auto ones = hn::Set(d, 1);
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

/// Adds the products of any group.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_group(const RowPointers<kRows>& rows, std::size_t offset,
                          const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  add_every_second<false>(rows, offset, words, sum);
  add_every_second<true>(rows, offset, words, sum);
}

/// sum[r][v] of kRows rows, whose largest bytes are `largest`, and kVectors vectors of columns.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void sum_steps(std::int64_t groups, const std::uint8_t* largest,
                          const StepLimits& limits, RowPointers<kRows> rows, const std::byte* words,
                          hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sum[r][v] = hn::Zero(Ints()); });
  });
  const std::int64_t steps = groups / 2;
  for (std::int64_t line = 0; line < steps; line += kStepsAtOnce) {
    const std::int64_t count = std::min(kStepsAtOnce, steps - line);
    std::uint64_t beyond = steps_beyond(largest + line, limits.allowed + line, count);
    for (std::int64_t s = 0; s < count; ++s) {
      const std::int64_t end = beyond == 0 ? count : std::countr_zero(beyond);
      for (; s < end; ++s, words += 2 * kByteWordRow, rows.advance(8)) add_step(rows, words, sum);
      if (s == count) break;
      add_group(rows, 0, words, sum);
      add_group(rows, 4, words + kByteWordRow, sum);
      words += 2 * kByteWordRow;
      rows.advance(8);
      beyond &= beyond - 1;
    }
  }
  if (groups % 2 != 0) add_group(rows, 0, words, sum);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
