// What products of bytes make of their sums. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_FINISH_INL_H
#undef CTXGEN_KERNELS_BYTE_FINISH_INL_H
#else
#define CTXGEN_KERNELS_BYTE_FINISH_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "bytes/byte_prepare-inl.h"
#include "bytes/byte_store-inl.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// The factors and addends of a vector of columns.
struct ByteColumn {
  hn::Vec<Ints> sums, zeros;  // of the columns; sums are multiplied by the rows' zero point
  hn::Vec<Floats> scale, bias;
};

HWY_INLINE ByteColumn load_column(const ByteProduct& p, const PreparedBytes& rows,
                                  const std::byte* tile, std::int64_t first, std::size_t column) {
  const Floats d;
  const Ints di;
  const ByteLayout layout(p.matrix);
  const auto ints = [&](std::int64_t offset) HWY_ATTR {
    return hn::LoadU(di, reinterpret_cast<const std::int32_t*>(tile + offset) + column);
  };
  ByteColumn to{hn::Mul(ints(layout.sums_offset), hn::Set(di, rows.zero)), hn::Zero(di),
                hn::Set(d, 1.0F), hn::Zero(d)};
  if (p.matrix.zeros) to.zeros = ints(layout.zeros_offset);
  if (p.sums != nullptr) return to;
  const std::int64_t at = first + static_cast<std::int64_t>(column);
  const auto left = static_cast<std::size_t>(p.matrix.n - at);
  if (p.b_scales != nullptr)
    to.scale = p.scale_per_column ? hn::LoadN(d, p.b_scales + at, left) : hn::Set(d, *p.b_scales);
  if (p.a_scale != nullptr) to.scale = hn::Mul(hn::Set(d, *p.a_scale), to.scale);
  if (p.bias != nullptr) to.bias = hn::LoadN(d, p.bias + at, left);
  return to;
}

/// Sums of a row less what zero points add to them.
HWY_INLINE hn::Vec<Ints> without_zeros(const ByteProduct& p, const PreparedBytes& rows,
                                       std::int64_t row, const ByteColumn& column,
                                       hn::Vec<Ints> sum) {
  sum = hn::Sub(sum, column.sums);
  if (rows.row_sums == nullptr) return sum;
  const auto all = static_cast<std::uint32_t>(p.matrix.k) * static_cast<std::uint32_t>(rows.zero);
  const auto own = static_cast<std::uint32_t>(rows.row_sums[row]) - all;
  return hn::Sub(sum, hn::Mul(column.zeros, hn::Set(Ints(), static_cast<std::int32_t>(own))));
}

/// Rounded before anything is added.
HWY_INLINE hn::Vec<Floats> scaled(const ByteColumn& column, hn::Vec<Ints> sum) {
  auto value = hn::Mul(hn::ConvertTo(Floats(), sum), column.scale);
  CTXGEN_KEEP(value);
  return value;
}

/// Writes a vector of sums, less the zero points, to `at`, an index of the result.
HWY_INLINE void write_sums(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                           const ByteColumn& column, hn::Vec<Ints> sum, std::int64_t at,
                           std::size_t count) {
  const Floats d;
  const Ints di;
  sum = without_zeros(p, rows, row, column, sum);
  if (p.sums != nullptr) {
    if (count >= kByteLanes)
      hn::StoreU(sum, di, p.sums + at);
    else
      hn::StoreN(sum, di, p.sums + at, count);
    return;
  }
  auto value = scaled(column, sum);
  if (p.bias != nullptr) value = hn::Add(value, column.bias);
  if (count >= kByteLanes)
    hn::StoreU(value, d, p.out + at);
  else
    hn::StoreN(value, d, p.out + at, count);
}

/// What tasks multiply: rows from `row` on by columns from `column` on of a tile.
struct BytePlace {
  std::int64_t row, tile;
  std::size_t column;
  // Where bytes are the result: sums of the tile's columns, kByteColumns per row, from `first_row` on.
  std::int32_t* sums;
  std::int64_t first_row;
};

/// Those of kVectors vectors of columns, as far as the tile has them; nothing where bytes are made, of sums that are kept.
template <std::size_t kVectors>
struct ByteColumns {
  HWY_INLINE ByteColumns(const ByteProduct& p, const PreparedBytes& rows, std::int64_t tile,
                         std::size_t column)
      : first(tile * kByteColumns + static_cast<std::int64_t>(column)) {
    if (p.bytes != nullptr) return;
    const std::byte* from = p.packed + tile * ByteLayout(p.matrix).tile_bytes;
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const std::size_t c = column + v * kByteLanes;
      if (first + static_cast<std::int64_t>(v * kByteLanes) >= p.matrix.n) return;
      of[v] = load_column(p, rows, from, tile * kByteColumns, c);
    });
  }
  std::int64_t first;
  ByteColumn of[kVectors];
};

/// Writes sums of rows from `row` on, less the zero points.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void write_columns(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                              const ByteColumns<kVectors>& columns,
                              const hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  // The usual case without what its vectors would ask each for itself.
  const bool whole = p.matrix.n - columns.first >= static_cast<std::int64_t>(kVectors * kByteLanes);
  if (HWY_LIKELY(whole && p.sums == nullptr && rows.row_sums == nullptr && p.bias != nullptr)) {
    float* to = p.out + row * p.matrix.n + columns.first;
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
        const ByteColumn& column = columns.of[v];
        const auto value = scaled(column, hn::Sub(sum[r][v], column.sums));
        hn::StoreU(hn::Add(value, column.bias), Floats(), to + v * kByteLanes);
      });
      to += p.matrix.n;
    });
    return;
  }
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const std::int64_t column = columns.first + static_cast<std::int64_t>(v * kByteLanes);
    if (column >= p.matrix.n) return;
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      const std::int64_t at = row + static_cast<std::int64_t>(r);
      write_sums(p, rows, at, columns.of[v], sum[r][v], at * p.matrix.n + column,
                 static_cast<std::size_t>(p.matrix.n - column));
    });
  });
}

/// Keeps sums for round_sums().
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void keep_sums(const BytePlace& at, const hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  std::int32_t* to = at.sums + (at.row - at.first_row) * kByteColumns + at.column;
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      hn::StoreU(sum[r][v], Ints(), to + r * kByteColumns + v * kByteLanes);
    });
  });
}

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void write_byte_columns(const ByteProduct& p, const PreparedBytes& rows,
                                   const BytePlace& at,
                                   const hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  if (at.sums != nullptr) return keep_sums(at, sum);
  write_columns(p, rows, at.row, ByteColumns<kVectors>(p, rows, at.tile, at.column), sum);
}

/// Writes the sums of rows [at.row, end) of a tile of columns.
HWY_NOINLINE inline void write_tile_sums(const ByteProduct& p, const PreparedBytes& rows,
                                         const BytePlace& at, std::int64_t end) {
  const std::int64_t first = at.tile * kByteColumns;
  const std::byte* tile = p.packed + at.tile * ByteLayout(p.matrix).tile_bytes;
  const auto columns = static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - first));
  for (std::size_t c = 0; c < columns; c += kByteLanes) {
    const ByteColumn factors = load_column(p, rows, tile, first, c);
    const std::int32_t* from = at.sums + c;
    for (std::int64_t row = at.row; row < end; ++row, from += kByteColumns)
      write_sums(p, rows, row, factors, hn::LoadU(Ints(), from),
                 row * p.matrix.n + first + static_cast<std::int64_t>(c), columns - c);
  }
}

/// Bytes of the sums of rows [row, end) of a vector of columns, as the rounded operations make them.
HWY_NOINLINE inline void divide_sums(const ByteProduct& p, const PreparedBytes& rows,
                                     const BytePlace& at, std::int64_t end) {
  const std::int64_t first = at.tile * kByteColumns;
  const std::byte* tile = p.packed + at.tile * ByteLayout(p.matrix).tile_bytes;
  const ByteColumn column = load_column(p, rows, tile, first, at.column);
  const std::int64_t to = first + static_cast<std::int64_t>(at.column);
  const auto count = static_cast<std::size_t>(p.matrix.n - to);
  for (std::int64_t row = at.row; row < end; ++row) {
    const std::int32_t* sums = at.sums + (row - at.first_row) * kByteColumns + at.column;
    const auto sum = without_zeros(p, rows, row, column, hn::LoadU(Ints(), sums));
    auto value = scaled(column, sum);
    if (p.bias != nullptr) value = hn::Add(value, column.bias);
    store_bytes(p.steps, value, count, p.bytes + row * p.matrix.n + to);
  }
}

/// The same by factors, of two vectors of columns; what they do not decide is divided.
HWY_NOINLINE inline void round_sums(const ByteProduct& p, const PreparedBytes& rows,
                                    const BytePlace& at, std::int64_t end) {
  constexpr std::int64_t kRowsOfCheck = 4;
  const std::int64_t n = p.matrix.n, first = at.tile * kByteColumns;
  const std::byte* tile = p.packed + at.tile * ByteLayout(p.matrix).tile_bytes;
  const std::int64_t to = first + static_cast<std::int64_t>(at.column);
  const auto count = static_cast<std::size_t>(n - to);
  const bool two = count > kByteLanes;
  const std::size_t second = two ? kByteLanes : 0;
  const BytePlace other{at.row, at.tile, at.column + second, at.sums, at.first_row};
  const ByteColumn by[2] = {load_column(p, rows, tile, first, at.column),
                            load_column(p, rows, tile, first, other.column)};
  const ByteFactors factors({by[0].scale, by[1].scale}, {by[0].bias, by[1].bias}, p.steps);
  const auto divide = [&](std::int64_t row, std::int64_t last) HWY_ATTR {
    divide_sums(p, rows, {row, at.tile, at.column, at.sums, at.first_row}, last);
    if (two) divide_sums(p, rows, {row, at.tile, other.column, at.sums, at.first_row}, last);
  };
  if (!factors.usable) return divide(at.row, end);
  ByteRounder rounder(p.steps, factors.margin);
  const auto units = [&](std::int64_t row, std::size_t v) CTXGEN_UNROLLED {
    const std::int32_t* sums = at.sums + (row - at.first_row) * kByteColumns + at.column;
    const auto sum = hn::LoadU(Ints(), sums + v * second);
    return ByteRounder::units(factors, v, without_zeros(p, rows, row, by[v], sum));
  };
  // As many rows as fill two vectors.
  const auto round = [&](std::int64_t row, std::int64_t some) HWY_ATTR {
    std::uint8_t* bytes = p.bytes + row * n + to;
    if (some == 2) return rounder.store_each(units(row, 0), units(row + 1, 0), count, bytes, n);
    rounder.store(units(row, 0), units(row, 1), count, bytes);
  };
  const std::int64_t most = two ? 1 : 2;
  for (std::int64_t row = at.row; row < end; row += kRowsOfCheck) {
    const std::int64_t last = std::min(row + kRowsOfCheck, end);
    rounder.reset();
    for (std::int64_t r = row; r < last; r += most) round(r, std::min(most, last - r));
    if (rounder.is_sure()) continue;
    for (std::int64_t r = row; r < last; ++r) {
      rounder.reset();
      round(r, 1);
      if (!rounder.is_sure()) divide(r, r + 1);
    }
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
