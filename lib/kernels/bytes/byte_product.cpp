#include "ctxgen/kernels/byte_product.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bytes/byte_pairs-inl.h"
#include "bytes/byte_store-inl.h"
#include "bytes/byte_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Rows that are multiplied at once, and a part of the rows: a task.
constexpr std::size_t kMostByteRows = kByteLanes >= 16 ? 12 : kByteLanes >= 8 ? 6 : 4;
constexpr std::int64_t kByteRowsOfTask = 120;

/// Rows as the kernels read them, and what their results need.
struct PreparedBytes {
  const std::uint8_t* rows;
  std::int64_t stride;           // bytes
  const std::int32_t* row_sums;  // where the matrix has zero points
  std::int32_t zero;             // of the rows, as u8
};

/// Four elements a time as bytes, or as 16-bit integers in the order 0, 2, 1, 3; s8 becomes u8 by adding
/// 128. Filled up with zeros.
template <class Bytes_>
HWY_NOINLINE void prepare_row(const ByteProduct& p, const std::uint8_t* from, std::uint8_t* to) {
  const Words d;
  const hn::Repartition<std::uint8_t, Words> bytes;
  const auto flip = hn::Set(bytes, p.is_signed ? 128 : 0);
  const auto k = static_cast<std::size_t>(p.matrix.k), lanes = hn::Lanes(bytes);
  const auto groups = static_cast<std::size_t>(ByteLayout(p.matrix).groups);
  HWY_ALIGN std::uint8_t last[hn::MaxLanes(bytes) * 2];
  for (std::size_t i = 0; i < k; i += lanes) {
    const bool whole = k - i >= lanes;
    auto value = hn::Xor(hn::LoadN(bytes, from + i, std::min(k - i, lanes)), flip);
    if (!whole) value = hn::IfThenElseZero(hn::FirstN(bytes, k - i), value);
    std::uint8_t* out = whole ? to + i / 4 * Bytes_::kGroupBytes : last;
    if constexpr (Bytes_::kGroupBytes == 4) {
      hn::StoreU(value, bytes, out);
    } else {
      const auto words = hn::BitCast(d, value);
      const auto mask = hn::Set(d, 0x00FF00FFU);
      hn::StoreInterleaved2(hn::And(words, mask), hn::And(hn::ShiftRight<8>(words), mask), d,
                            reinterpret_cast<std::uint32_t*>(out));
    }
    if (!whole)
      std::memcpy(to + i / 4 * Bytes_::kGroupBytes, last, (groups - i / 4) * Bytes_::kGroupBytes);
  }
}

HWY_INLINE std::int64_t row_stride(const ByteProduct& p) {
  return p.a_stride == 0 ? p.matrix.k : p.a_stride;
}

HWY_NOINLINE std::int32_t sum_of_row(const ByteProduct& p, const std::uint8_t* from) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  const hn::Repartition<std::uint64_t, Words> d;
  const auto flip = hn::Set(bytes, p.is_signed ? 128 : 0);
  const auto k = static_cast<std::size_t>(p.matrix.k), lanes = hn::Lanes(bytes);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes)
    sum = hn::Add(sum, hn::SumsOf8(hn::Xor(hn::LoadU(bytes, from + i), flip)));
  if (i < k) {
    const auto rest = hn::Xor(hn::LoadN(bytes, from + i, k - i), flip);
    sum = hn::Add(sum, hn::SumsOf8(hn::IfThenElseZero(hn::FirstN(bytes, k - i), rest)));
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(hn::ReduceSum(d, sum)));
}

/// Calls task(row) for all rows; `workers` help where they are worth it.
template <class Task>
HWY_INLINE void for_byte_rows(const ByteProduct& p, Workers& workers, const Task& task) {
  constexpr std::int64_t kWorthThreads = 256 * 1024;
  if (p.rows > 1 && p.matrix.k >= kWorthThreads / p.rows) return workers.parallel_for(p.rows, task);
  for (std::int64_t row = 0; row < p.rows; ++row) task(row);
}

/// Whether rows are read where they are: as bytes, with no group that reaches into the next row.
template <class Bytes_>
bool reads_in_place(const ByteProduct& p) {
  return Bytes_::kGroupBytes == 4 && !p.is_signed && row_stride(p) % 4 == 0;
}

template <class Bytes_>
HWY_NOINLINE PreparedBytes prepare_rows(const ByteProduct& p, Workers& workers) {
  const ByteRows layout(p.matrix, p.rows, Bytes_::kGroupBytes);
  const bool in_place = reads_in_place<Bytes_>(p), zeros = p.matrix.zeros;
  auto* sums = reinterpret_cast<std::int32_t*>(p.scratch);
  auto* values = reinterpret_cast<std::uint8_t*>(p.scratch) + layout.values_offset;
  if (!in_place || zeros)
    for_byte_rows(p, workers, [&](std::int64_t row) HWY_ATTR {
      const std::uint8_t* from = p.a + row * row_stride(p);
      if (!in_place) prepare_row<Bytes_>(p, from, values + row * layout.stride);
      if (zeros) sums[row] = sum_of_row(p, from);
    });
  const std::uint32_t flip = p.is_signed ? 128 : 0;
  const std::uint32_t zero = p.a_zero == nullptr ? 0 : *p.a_zero;
  return {.rows = in_place ? p.a : values,
          .stride = in_place ? row_stride(p) : layout.stride,
          .row_sums = zeros ? sums : nullptr,
          .zero = static_cast<std::int32_t>(zero ^ flip)};
}

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

/// Writes a vector of sums, less the zero points, to `at`, an index of the result.
HWY_INLINE void write_sums(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                           const ByteColumn& column, hn::Vec<Ints> sum, std::int64_t at,
                           std::size_t count) {
  const Floats d;
  const Ints di;
  sum = hn::Sub(sum, column.sums);
  if (rows.row_sums != nullptr) {
    const auto all = static_cast<std::uint32_t>(p.matrix.k) * static_cast<std::uint32_t>(rows.zero);
    const auto own = static_cast<std::uint32_t>(rows.row_sums[row]) - all;
    sum = hn::Sub(sum, hn::Mul(column.zeros, hn::Set(di, static_cast<std::int32_t>(own))));
  }
  if (p.sums != nullptr) {
    if (count >= kByteLanes)
      hn::StoreU(sum, di, p.sums + at);
    else
      hn::StoreN(sum, di, p.sums + at, count);
    return;
  }
  auto value = hn::Mul(hn::ConvertTo(d, sum), column.scale);
  if (p.bias != nullptr) value = hn::Add(value, column.bias);
  if (p.bytes != nullptr) return store_bytes(p.steps, value, count, p.bytes + at);
  if (count >= kByteLanes)
    hn::StoreU(value, d, p.out + at);
  else
    hn::StoreN(value, d, p.out + at, count);
}

/// What tasks multiply: rows from `row` on by columns from `column` on of a tile.
struct BytePlace {
  std::int64_t row, tile;
  std::size_t column;
};

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void write_byte_columns(const ByteProduct& p, const PreparedBytes& rows,
                                   const BytePlace& at,
                                   const hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  const std::int64_t first = at.tile * kByteColumns;
  const std::byte* tile = p.packed + at.tile * ByteLayout(p.matrix).tile_bytes;
  const auto columns = static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - first));
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const std::size_t c = at.column + v * kByteLanes;
    if (c >= columns) return;
    const ByteColumn factors = load_column(p, rows, tile, first, c);
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      const std::int64_t to = at.row + static_cast<std::int64_t>(r);
      write_sums(p, rows, to, factors, sum[r][v],
                 to * p.matrix.n + first + static_cast<std::int64_t>(c), columns - c);
    });
  });
}

template <std::size_t kRows>
HWY_INLINE RowPointers<kRows> rows_at(const PreparedBytes& rows, std::int64_t row) {
  return {rows.rows + row * rows.stride, static_cast<std::size_t>(rows.stride)};
}

/// `kRows` rows times `kVectors` vectors of columns, whose words begin at `words`.
template <class Bytes_, std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_byte_columns(const ByteProduct& p, const PreparedBytes& rows,
                                        const BytePlace& at, const std::byte* words) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_columns<Bytes_, kRows, kVectors>(ByteLayout(p.matrix).groups, rows_at<kRows>(rows, at.row),
                                       words, sum);
  write_byte_columns(p, rows, at, sum);
}

/// The same in an order of groups.
template <std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_ordered_columns(const ByteProduct& p, const PreparedBytes& rows,
                                           const BytePlace& at, const std::byte* words,
                                           const GroupOrder& order) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_ordered(order, rows_at<kRows>(rows, at.row), words, sum);
  write_byte_columns(p, rows, at, sum);
}

/// Calls take<kRows>(row) for rows [row, end), as many at once as there are.
template <class Take>
HWY_INLINE void for_row_blocks(std::int64_t row, std::int64_t end, const Take& take) {
  const auto take_all = [&]<std::size_t kRows>() HWY_ATTR {
    for (; end - row >= static_cast<std::int64_t>(kRows); row += kRows)
      take.template operator()<kRows>(row);
  };
  take_all.template operator()<kMostByteRows>();
  if constexpr (kMostByteRows > 8) take_all.template operator()<8>();
  if constexpr (kMostByteRows > 4) take_all.template operator()<4>();
  take_all.template operator()<2>();
  take_all.template operator()<1>();
}

template <class Bytes_>
HWY_INLINE void multiply_byte_rows(const ByteProduct& p, const PreparedBytes& rows,
                                   std::int64_t row, std::int64_t end, std::int64_t tile) {
  const ByteLayout layout(p.matrix);
  const std::byte* from = p.packed + tile * layout.tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
    constexpr std::size_t kVectors = kRows == 1 ? std::min<std::size_t>(kByteVectors, 4) : 2;
    std::size_t column = 0;
    for (; column + kByteLanes < columns; column += kVectors * kByteLanes)
      multiply_byte_columns<Bytes_, kRows, kVectors>(p, rows, {at, tile, column},
                                                     from + column * 4);
    if (column < columns)
      multiply_byte_columns<Bytes_, kRows, 1>(p, rows, {at, tile, column}, from + column * 4);
  });
}

/// So many rows share what it takes to widen the words of a tile, or to order its groups.
constexpr std::int64_t kManyRows = 4 * kMostByteRows;
/// Of the widened words of a tile: they have to fit into memory on the stack.
constexpr std::size_t kWidenedBytes = std::size_t{96} * 1024;
constexpr std::size_t kWidenedGroup =
    WidenedBytes::kWordRow * (WidenedBytes::kGroupBytes / WidenedBytes::kStepBytes);

HWY_NOINLINE void multiply_widened_rows(const ByteProduct& p, const PreparedBytes& rows,
                                        std::int64_t row, std::int64_t end, std::int64_t tile) {
  constexpr std::size_t kVectors = WidenedBytes::kVectorsOfWords;
  HWY_ALIGN std::byte widened[kWidenedBytes];
  const ByteLayout layout(p.matrix);
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for (std::size_t column = 0; column < columns; column += kVectors * kByteLanes) {
    const std::byte* words = p.packed + tile * layout.tile_bytes + column * 4;
    for (std::int64_t group = 0; group < layout.groups; ++group)
      WideBytes::widen<kVectors>(words + group * static_cast<std::int64_t>(kByteWordRow),
                                 widened + group * static_cast<std::int64_t>(kWidenedGroup));
    for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
      multiply_byte_columns<WidenedBytes, kRows, kVectors>(p, rows, {at, tile, column}, widened);
    });
  }
}

HWY_NOINLINE void multiply_paired_rows(const ByteProduct& p, const PreparedBytes& rows,
                                       std::int64_t row, std::int64_t end, std::int64_t tile) {
  const ByteLayout layout(p.matrix);
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  GroupOrder order;
  const auto multiply = [&]<std::size_t kVectors>(std::size_t column) HWY_ATTR {
    const std::byte* words = p.packed + tile * layout.tile_bytes + column * 4;
    order_groups<kVectors>(words, layout.groups, order);
    for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
      multiply_ordered_columns<kRows, kVectors>(p, rows, {at, tile, column}, words, order);
    });
  };
  std::size_t column = 0;
  for (; column + kByteLanes < columns; column += 2 * kByteLanes)
    multiply.template operator()<2>(column);
  if (column < columns) multiply.template operator()<1>(column);
}

/// Whether the pairs of most groups fit, by some columns: a group that does not fit takes about twice the time
/// of one that does, one of WidenedBytes 1.25 times (AMD Zen 3).
HWY_NOINLINE bool pairs_pay(const ByteMatrix& matrix, const std::byte* packed) {
  constexpr std::int64_t kSeen = 256;
  const ByteLayout layout(matrix);
  const std::int64_t seen = std::min(layout.groups, kSeen);
  const std::byte* words = packed + layout.tiles / 2 * layout.tile_bytes;
  std::int64_t fitting = 0;
  for (std::int64_t i = 0; i < seen; ++i)
    fitting += pairs_fit<2>(words + i * static_cast<std::int64_t>(kByteWordRow)) ? 1 : 0;
  return fitting * 4 >= seen * 3;
}

template <class Bytes_>
HWY_INLINE void multiply_byte_part(const ByteProduct& p, const PreparedBytes& rows,
                                   std::int64_t row, std::int64_t end, std::int64_t tile) {
  if constexpr (std::is_same_v<Bytes_, PairedBytes>) {
    return multiply_paired_rows(p, rows, row, end, tile);
  } else {
    if constexpr (std::is_same_v<Bytes_, WideBytes>) {
      const auto bytes = static_cast<std::size_t>(ByteLayout(p.matrix).groups) * kWidenedGroup;
      const bool narrow = p.matrix.n - tile * kByteColumns <= static_cast<std::int64_t>(kByteLanes);
      if (end - row >= kManyRows && bytes <= kWidenedBytes && !narrow)
        return multiply_widened_rows(p, rows, row, end, tile);
    }
    multiply_byte_rows<Bytes_>(p, rows, row, end, tile);
  }
}

template <class Bytes_>
HWY_NOINLINE void multiply_bytes(const ByteProduct& p, Workers& workers) {
  const PreparedBytes rows = prepare_rows<Bytes_>(p, workers);
  const std::int64_t tiles = ByteLayout(p.matrix).tiles;
  const std::int64_t parts = (p.rows + kByteRowsOfTask - 1) / kByteRowsOfTask;
  const auto part = [&](std::int64_t i) HWY_ATTR {
    const std::int64_t row = i % parts * kByteRowsOfTask;
    multiply_byte_part<Bytes_>(p, rows, row, std::min(row + kByteRowsOfTask, p.rows), i / parts);
  };
  // Starting threads costs as much as a million products.
  constexpr std::int64_t kWorthThreads = 1024 * 1024;
  if (p.rows >= kWorthThreads / p.matrix.k / p.matrix.n)
    return workers.parallel_for(tiles * parts, part);
  for (std::int64_t i = 0; i < tiles * parts; ++i) part(i);
}

HWY_NOINLINE void multiply_all(const ByteProduct& p, bool vnni, Workers& workers) {
#if CTXGEN_HAVE_VNNI
  if (vnni) return multiply_bytes<VnniBytes>(p, workers);
#else
  (void)vnni;
#endif
  if (p.rows >= kManyRows && ByteLayout(p.matrix).groups <= GroupOrder::kMostGroups &&
      pairs_pay(p.matrix, p.packed))
    return multiply_bytes<PairedBytes>(p, workers);
  multiply_bytes<WideBytes>(p, workers);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

std::optional<std::uint64_t> scratch_bytes(const ByteMatrix& matrix, std::int64_t rows) {
  // Rows as 16-bit integers, their sums, and what aligns them.
  const auto row_bytes = static_cast<std::uint64_t>(ByteRows(matrix, 0, kMostGroupBytes).stride +
                                                    (matrix.zeros ? 4 : 0));
  const auto bytes = checked_mul(static_cast<std::uint64_t>(rows), row_bytes);
  constexpr std::uint64_t kAlignment = 64;
  if (!bytes || *bytes > INT64_MAX - kAlignment) return std::nullopt;
  return *bytes + (matrix.zeros ? kAlignment : 0);
}

void byte_product(const ByteProduct& product, Workers& workers) {
  if (product.rows <= 0) return;
  const InstructionSet usable = usable_instruction_set();
  const bool vnni = simd_level() == SimdLevel::kAvx512
                        ? includes(usable, InstructionSet::kAvx512CoreVnni)
                        : includes(usable, InstructionSet::kAvx2Vnni);
  CTXGEN_DISPATCH(multiply_all(product, vnni, workers));
}

}  // namespace ctxgen::kernels
#endif
