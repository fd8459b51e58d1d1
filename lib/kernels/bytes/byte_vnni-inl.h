// Products of bytes by VNNI. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_VNNI_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_VNNI_INL_H
#undef CTXGEN_KERNELS_BYTE_VNNI_INL_H
#else
#define CTXGEN_KERNELS_BYTE_VNNI_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>

#include "bytes/byte_finish-inl.h"
#include "dot-inl.h"

#if CTXGEN_HAVE_VNNI  // clang refuses to have nothing between what Highway puts around code
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Rows that are multiplied at once: their sums fill the registers.
constexpr std::size_t kMostVnniRows = kByteLanes >= 16 ? 12 : 6;

/// What makes bytes of the sums of up to two vectors of columns while they are in registers.
struct DirectBytes {
  HWY_INLINE DirectBytes(const ByteProduct& p, const PreparedBytes& rows, std::int64_t tile,
                         std::size_t column, bool two)
      : DirectBytes(p, {load_column(p, rows, p.packed + tile * ByteLayout(p.matrix).tile_bytes,
                                    tile * kByteColumns, column),
                        load_column(p, rows, p.packed + tile * ByteLayout(p.matrix).tile_bytes,
                                    tile * kByteColumns, column + (two ? kByteLanes : 0))}) {}

  hn::Vec<Ints> start[2];  // less what the rows' zero point adds
  ByteFactors factors;
  bool usable;   // and decide bytes where the matrix has no zero points
  bool bounded;  // no number of units passes an integer

 private:
  HWY_INLINE DirectBytes(const ByteProduct& p, const ByteColumn (&by)[2])
      : start{hn::Neg(by[0].sums), hn::Neg(by[1].sums)},
        factors({by[0].scale, by[1].scale}, {by[0].bias, by[1].bias}, p.steps),
        usable(factors.usable && !p.matrix.zeros),
        bounded(usable &&
                units_are_bounded(
                    p.matrix.k, hn::Max(hn::Abs(factors.factor[0]), hn::Abs(factors.factor[1])),
                    hn::Max(hn::Abs(factors.addend[0]), hn::Abs(factors.addend[1])))) {}
};

/// The words of columns of a tile, and what sums begin with: a vector per vector of columns.
struct VnniWords {
  const std::byte* words;
  const std::int32_t* start;
};

/// sum[r][v] += those of rows in segments; `asked`: of all of them.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_segments(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                             const std::byte* words, AskedWords asked,
                             hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const std::int64_t all = ByteLayout(p.matrix).groups;
  if (HWY_LIKELY(rows.lines.segments == 1))  // without a division
    return add_columns<VnniBytes, kRows, kVectors>(all, rows_at<kRows>(rows, row), words, asked,
                                                   sum);
  const std::int64_t groups = all / rows.lines.segments;
  const auto word_bytes = static_cast<std::size_t>(groups) * kByteWordRow;
  auto at = rows_at<kRows>(rows, row);
  for (std::int64_t segment = 0; segment < rows.lines.segments; ++segment) {
    add_columns<VnniBytes, kRows, kVectors>(groups, at, words, asked, sum);
    at.advance(static_cast<std::size_t>(rows.lines.segment_stride));
    words += word_bytes;
    asked.bytes += static_cast<std::size_t>(groups) * asked.step - word_bytes;
  }
}

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void sum_rows(const ByteProduct& p, const PreparedBytes& rows, const BytePlace& at,
                         const VnniWords& by, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  constexpr std::size_t kLinesOfGroup = kByteWordRow / 64;  // of a cache
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto start = hn::LoadU(Ints(), by.start + v * kByteLanes);
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { sum[r][v] = start; });
  });
  // The first blocks of rows ask for the next tile, a line per group each.
  const ByteLayout layout(p.matrix);
  const auto block = static_cast<std::size_t>(at.row - at.first_row) / kMostVnniRows;
  const auto tile = static_cast<std::size_t>(layout.tile_bytes);
  const AskedWords asked{tile + block * tile / kLinesOfGroup, block < kLinesOfGroup ? 64U : 0U};
  add_segments(p, rows, at.row, by.words, asked, sum);
}

/// The result, unless that is bytes, or sums of which bytes are made later.
template <std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_to_numbers(const ByteProduct& p, const PreparedBytes& rows,
                                      const BytePlace& at, const VnniWords& by) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_rows(p, rows, at, by, sum);
  write_byte_columns(p, rows, at, sum);
}

/// Multiplies a row again and makes bytes of it as the rounded operations do.
template <std::size_t kVectors>
HWY_NOINLINE void divide_row(const ByteProduct& p, const PreparedBytes& rows, BytePlace at) {
  HWY_ALIGN std::int32_t sums[kByteColumns];
  const ByteLayout layout(p.matrix);
  const std::byte* words = p.packed + at.tile * layout.tile_bytes + at.column * 4;
  hn::Vec<Ints> sum[1][kVectors];
  for (auto& value : sum[0]) value = hn::Zero(Ints());
  add_segments(p, rows, at.row, words, {0, 0}, sum);
  at.sums = sums;
  at.first_row = at.row;
  write_byte_columns(p, rows, at, sum);
  for (std::size_t v = 0; v < kVectors; ++v, at.column += kByteLanes)
    divide_sums(p, rows, at, at.row + 1);
}

/// The result in bytes.
template <std::size_t kRows, std::size_t kVectors, bool kBounded>
HWY_NOINLINE void multiply_to_bytes(const ByteProduct& p, const PreparedBytes& rows,
                                    const BytePlace& at, const VnniWords& words,
                                    const DirectBytes& by) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_rows(p, rows, at, words, sum);
  const std::int64_t to = at.tile * kByteColumns + static_cast<std::int64_t>(at.column);
  const auto count = static_cast<std::size_t>(p.matrix.n - to);
  std::uint8_t* bytes = p.bytes + at.row * p.matrix.n + to;
  ByteRounder rounder(p.steps, by.factors.margin);
  std::uint32_t unsure = 0;  // a bit per row
  const auto units = [&](std::size_t r, std::size_t v) CTXGEN_UNROLLED {
    return kBounded ? ByteRounder::bounded_units(by.factors, v, sum[r][v])
                    : ByteRounder::units(by.factors, v, sum[r][v]);
  };
  constexpr std::size_t kStep = 3 - kVectors;  // as many rows as fill two vectors
  unrolled<(kRows + kStep - 1) / kStep>([&](auto i) CTXGEN_UNROLLED {
    constexpr std::size_t kRow = i * kStep, kOther = std::min(kRow + kStep, kRows) - 1;
    rounder.reset();
    const auto first = units(kRow, 0), second = units(kOther, kVectors - 1);
    if constexpr (kVectors == 1 && kOther > kRow)
      rounder.store_each(first, second, count, bytes, p.matrix.n);
    else
      rounder.store(first, second, count, bytes);
    bytes += kStep * static_cast<std::size_t>(p.matrix.n);
    constexpr std::uint32_t kBits = (1U << kRow) | (1U << kOther);
    unsure |= rounder.is_sure() ? 0 : kBits;
  });
  for (; HWY_UNLIKELY(unsure != 0); unsure &= unsure - 1)
    divide_row<kVectors>(p, rows,
                         {at.row + std::countr_zero(unsure), at.tile, at.column, nullptr, 0});
}

/// Rows [row, end) times a tile of columns. `sums`: memory for theirs, kByteColumns per row.
HWY_NOINLINE void multiply_vnni_rows(const ByteProduct& p, const PreparedBytes& rows,
                                     std::int64_t row, std::int64_t end, std::int64_t tile,
                                     std::int32_t* sums) {
  const std::byte* from = p.packed + tile * ByteLayout(p.matrix).tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for (std::size_t column = 0; column < columns; column += 2 * kByteLanes) {
    const bool two = columns - column > kByteLanes;
    const DirectBytes by(p, rows, tile, column, two);
    const bool in_bytes = p.bytes != nullptr && by.usable, later = p.bytes != nullptr && !in_bytes;
    HWY_ALIGN std::int32_t start[2 * kByteLanes] = {};
    if (in_bytes)
      for (std::size_t v = 0; v < 2; ++v) hn::StoreU(by.start[v], Ints(), start + v * kByteLanes);
    const VnniWords words{from + column * 4, start};
    BytePlace at{row, tile, column, later ? sums : nullptr, row};
    const auto take = [&]<std::size_t kRows>(std::int64_t first) HWY_ATTR {
      const auto multiply = [&]<std::size_t kVectors>() HWY_ATTR {
        if (!in_bytes) return multiply_to_numbers<kRows, kVectors>(p, rows, at, words);
        if (by.bounded) return multiply_to_bytes<kRows, kVectors, true>(p, rows, at, words, by);
        multiply_to_bytes<kRows, kVectors, false>(p, rows, at, words, by);
      };
      at.row = first;
      if (two) return multiply.template operator()<2>();
      multiply.template operator()<1>();
    };
    const std::int64_t line = p.lines.rows;
    for (std::int64_t from = row; from < end;) {
      const std::int64_t to = line == 0 ? end : std::min(from / line * line + line, end);
      for_row_blocks<kMostVnniRows>(from, to, take);
      from = to;
    }
    at.row = row;
    if (later) round_sums(p, rows, at, end);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
