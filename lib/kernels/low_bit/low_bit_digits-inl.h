// One row of f32 times packed low-bit blocks by products of bytes: each number is an integer of three bytes, its digits, in
// steps of its block. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_DIGITS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_DIGITS_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_DIGITS_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_DIGITS_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstring>

#include "low_bit/low_bit_int8-inl.h"

#if CTXGEN_HAVE_VNNI  // clang refuses to have nothing between what Highway puts around code
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// From the highest one on; a digit is s8, a number d[0] * 2^16 + d[1] * 2^8 + d[2]. The largest number of a block is kMostDigits,
/// so what is rounded off is at most 2^-24 of it, as when sums of the block's products are rounded to f32.
constexpr float kMostDigits = 127.0F * 65536;

/// The digits of `count` numbers in steps of 1 / `by`, then zeros up to `length`: those of digit d at `to` + d * stride.
HWY_INLINE void write_digits(const float* x, std::int64_t count, std::int64_t length, float by,
                             std::byte* to, std::int64_t stride) {
  const Floats d;
  const hn::Rebind<std::int8_t, Ints> bytes;
  const auto factor = hn::Set(d, by);
  for (std::int64_t i = 0; i < length; i += static_cast<std::int64_t>(kLanes)) {
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(count - i, 0));
    const auto value = left >= kLanes ? hn::LoadU(d, x + i) : hn::LoadN(d, x + i, left);
    auto rest = hn::NearestInt(hn::Mul(value, factor));
    for (std::size_t digit = kDigits; digit-- > 0;) {
      const auto low = hn::ShiftRight<24>(hn::ShiftLeft<24>(rest));
      hn::StoreU(
          hn::DemoteTo(bytes, low), bytes,
          reinterpret_cast<std::int8_t*>(to + static_cast<std::int64_t>(digit) * stride) + i);
      rest = hn::ShiftRight<8>(hn::Sub(rest, low));
    }
  }
}

/// A row as kDigits rows of integers, each with what its zero points are multiplied by, the first one with the steps. False:
/// not all blocks have digits, as numbers are not finite, or next to nothing.
HWY_NOINLINE bool prepare_digits(const LowBitMatrix& matrix, const RowLayout& layout,
                                 const float* x, std::byte* to) {
  constexpr float kLeastStep = 1e-30F;
  for (std::int64_t k = 0; k < layout.padded; k += matrix.block) {
    const std::int64_t count = std::min(matrix.block, matrix.k - k), unit = k / matrix.block;
    const float largest = largest_of(x + k, count), step = largest / kMostDigits;
    if (std::isnan(step) || (step < kLeastStep && largest > 0)) return false;
    write_digits(x + k, count, matrix.block, step > 0 ? 1 / step : 0, to + k, layout.row_bytes);
    std::memcpy(to + layout.scales_offset + unit * 4, &step, 4);
    for (std::size_t digit = 0; digit < kDigits; ++digit) {
      std::byte* row = to + static_cast<std::int64_t>(digit) * layout.row_bytes;
      write_zero_factor(matrix, sum_of(reinterpret_cast<const std::int8_t*>(row) + k, matrix.block),
                        row + layout.zeros_offset + unit * 4);
    }
  }
  return true;
}

/// As scale_unit(), of the digits of one row.
template <std::size_t kVectors>
HWY_INLINE void scale_digits(bool middle, const TileReader& tile, const RowReader& rows,
                             const hn::Vec<Floats> (&zeros)[kVectors],
                             const hn::Vec<Ints> (&sum)[kDigits][kVectors],
                             hn::Vec<Floats> (&totals)[1][kVectors]) {
  const Floats d;
  const auto step = hn::BitCast(d, spread_four(rows.scale));
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto of_digit = [&](std::size_t digit) CTXGEN_UNROLLED {
      const auto value = hn::ConvertTo(d, sum[digit][v]);
      if (middle) return value;
      const auto minus = hn::BitCast(d, spread_four(rows.zero + digit * rows.stride));
      return hn::MulAdd(zeros[v], minus, value);
    };
    const auto base = hn::Set(d, 256.0F);
    const auto value = hn::MulAdd(hn::MulAdd(of_digit(0), base, of_digit(1)), base, of_digit(2));
    const auto scale =
        hn::LoadU(d, reinterpret_cast<const float*>(tile.scales + vector_offset<4>(v, tile.pitch)));
    totals[0][v] = hn::MulAdd(value, hn::Mul(scale, step), totals[0][v]);
  });
}

/// As int8_columns(), of the digits of one row.
template <std::size_t kBits, std::size_t kVectors>
HWY_INLINE void digit_columns(const LowBitMatrix& matrix, const RowLayout& layout,
                              const std::byte* prepared, const TilesAtOnce& from, float* sums) {
  hn::Vec<Floats> totals[1][kVectors];
  for (auto& total : totals[0]) total = hn::Zero(Floats());
  for_units<VnniDot, kBits, kDigits, kVectors, true>(
      matrix, layout, prepared, from,
      [&](const TileReader& tile, const RowReader& rows, const auto& zeros, const auto& sum)
          HWY_ATTR {
            scale_digits(matrix.zeros == ZeroPoints::kMiddle, tile, rows, zeros, sum, totals);
          });
  store_sums(totals, from.column, sums);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
