#include "ctxgen/kernels/byte_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretches.h"

#include "bytes/byte_pairs-inl.h"
#include "bytes/byte_steps-inl.h"
#include "bytes/byte_store-inl.h"
#include "bytes/byte_sums-inl.h"
#include "bytes/byte_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Rows that are multiplied at once, and a part of the rows: a task.
constexpr std::size_t kMostByteRows = kByteLanes >= 16 ? 12 : kByteLanes >= 8 ? 6 : 4;
template <class Bytes_>
constexpr std::int64_t kByteRowsOfTask = 120;

/// By the tiles of AMX, whole depths of them.
struct TiledBytes {
  static constexpr std::size_t kGroupBytes = 4;
};
template <>
constexpr std::int64_t kByteRowsOfTask<TiledBytes> = 128;

/// What a part of the rows is a multiple of, but the last one.
template <class Bytes_>
constexpr std::int64_t kUnitRows = kMostByteRows;
template <>
constexpr std::int64_t kUnitRows<TiledBytes> = kTileRows;
template <>
constexpr std::int64_t kUnitRows<SteppedBytes> = kRowsOfBlock;

/// Rows as the kernels read them, and what their results need.
struct PreparedBytes {
  const std::uint8_t* rows;
  std::int64_t stride;           // bytes
  const std::int32_t* row_sums;  // where the matrix has zero points
  const std::uint8_t* largest;   // of ByteBlocks, for SteppedBytes
  const std::uint8_t*
      last_rows;      // for TiledBytes: the last kTileRows again, each as long as it is; or null
  std::int32_t zero;  // of the rows, as u8
};

/// Four elements a time as bytes, or as 16-bit integers in the order 0, 2, 1, 3; s8 becomes u8 by adding
/// 128. Filled up with zeros.
template <class Bytes_>
HWY_NOINLINE void prepare_elements(bool is_signed, std::int64_t count, const std::uint8_t* from,
                                   std::uint8_t* to) {
  const Words d;
  const hn::Repartition<std::uint8_t, Words> bytes;
  const auto flip = hn::Set(bytes, is_signed ? 128 : 0);
  const auto k = static_cast<std::size_t>(count), lanes = hn::Lanes(bytes);
  const std::size_t groups = (k + 3) / 4;
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

/// Calls task(row, count) for all rows, `step` at a time; `workers` help where they are worth it.
template <class Task>
HWY_INLINE void for_byte_rows(const ByteProduct& p, std::int64_t step, Workers& workers,
                              const Task& task) {
  constexpr std::int64_t kWorthThreads = 256 * 1024;
  const auto take = [&](std::int64_t i)
                        HWY_ATTR { task(i * step, std::min(step, p.rows - i * step)); };
  const std::int64_t tasks = (p.rows + step - 1) / step;
  if (tasks > 1 && p.matrix.k >= kWorthThreads / p.rows) return workers.parallel_for(tasks, take);
  for (std::int64_t i = 0; i < tasks; ++i) take(i);
}

/// Whether rows are read where they are: as bytes, with no group that reaches into the next row.
template <class Bytes_>
bool reads_in_place(const ByteProduct& p) {
  return Bytes_::kGroupBytes == 4 && !p.is_signed && row_stride(p) % 4 == 0;
}

/// Copies the last rows of `p` for tiles, which read more than a row has: nothing may be there.
HWY_NOINLINE const std::uint8_t* copy_last_rows(const ByteProduct& p, std::uint8_t* to) {
  const std::int64_t bytes = ByteLayout(p.matrix).groups * 4;
  if (bytes < kTileDepth || bytes % kTileDepth == 0) return nullptr;
  const std::int64_t count = std::min(p.rows, kTileRows);
  const std::uint8_t* from = p.a + (p.rows - count) * row_stride(p);
  for (std::int64_t row = 0; row < count; ++row)
    std::memcpy(to + row * bytes, from + row * row_stride(p), static_cast<std::size_t>(bytes));
  return to;
}

/// The largest bytes of the steps of block `i` of rows that are `stride` bytes from one to the next.
HWY_INLINE void find_block(const ByteProduct& p, const std::uint8_t* rows, std::int64_t stride,
                           std::int64_t i, std::uint8_t* to) {
  const std::int64_t row = i * kRowsOfBlock;
  find_largest(rows + row * stride, std::min(kRowsOfBlock, p.rows - row), stride,
               ByteLayout(p.matrix).groups / 2, to);
}

template <class Bytes_>
HWY_NOINLINE PreparedBytes prepare_rows(const ByteProduct& p, Workers& workers) {
  const ByteRows layout(p.matrix, p.rows, Bytes_::kGroupBytes);
  const bool in_place = reads_in_place<Bytes_>(p), zeros = p.matrix.zeros;
  auto* sums = reinterpret_cast<std::int32_t*>(p.scratch);
  auto* values = reinterpret_cast<std::uint8_t*>(p.scratch) + layout.values_offset;
  // Rows of whole groups that follow one another are as one: short ones by themselves take longer.
  constexpr std::int64_t kJoinedRows = 16;
  const std::int64_t stride = row_stride(p);
  const bool joined = stride == ByteLayout(p.matrix).groups * 4;
  if (!in_place || zeros)
    for_byte_rows(p, joined ? kJoinedRows : 1, workers,
                  [&](std::int64_t first, std::int64_t count) HWY_ATTR {
                    const std::uint8_t* from = p.a + first * stride;
                    if (!in_place)
                      prepare_elements<Bytes_>(p.is_signed, joined ? count * stride : p.matrix.k,
                                               from, values + first * layout.stride);
                    if (!zeros) return;
                    for (std::int64_t row = 0; row < count; ++row)
                      sums[first + row] = sum_of_row(p, from + row * stride);
                  });
  std::uint8_t* largest = nullptr;
  if constexpr (std::is_same_v<Bytes_, SteppedBytes>) {
    largest = values + (in_place ? 0 : p.rows * layout.stride);
    const ByteBlocks blocks(p.matrix, p.rows);
    for (std::int64_t i = 0; i < blocks.count; ++i)
      find_block(p, in_place ? p.a : values, in_place ? row_stride(p) : layout.stride, i,
                 largest + i * blocks.line);
  }
  const std::uint8_t* last_rows = nullptr;
  if constexpr (std::is_same_v<Bytes_, TiledBytes>)
    if (in_place) last_rows = copy_last_rows(p, values);
  const std::uint32_t flip = p.is_signed ? 128 : 0;
  const std::uint32_t zero = p.a_zero == nullptr ? 0 : *p.a_zero;
  return {.rows = in_place ? p.a : values,
          .stride = in_place ? row_stride(p) : layout.stride,
          .row_sums = zeros ? sums : nullptr,
          .largest = largest,
          .last_rows = last_rows,
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
  auto value = hn::Mul(hn::ConvertTo(d, sum), column.scale);
  CTXGEN_KEEP(value);  // rounded, not joined with the sum
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

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void write_byte_columns(const ByteProduct& p, const PreparedBytes& rows,
                                   const BytePlace& at,
                                   const hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  if (at.sums != nullptr) {
    std::int32_t* to = at.sums + (at.row - at.first_row) * kByteColumns + at.column;
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
        hn::StoreU(sum[r][v], Ints(), to + r * kByteColumns + v * kByteLanes);
      });
    });
    return;
  }
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

/// Writes the sums of rows [at.row, end) of a tile of columns.
HWY_NOINLINE void write_tile_sums(const ByteProduct& p, const PreparedBytes& rows,
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

/// The same where steps are within limits.
template <std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_stepped_columns(const ByteProduct& p, const PreparedBytes& rows,
                                           const BytePlace& at, const std::byte* words,
                                           const StepLimits& limits) {
  hn::Vec<Ints> sum[kRows][kVectors];
  const std::uint8_t* largest =
      rows.largest + at.row / kRowsOfBlock * ByteBlocks(p.matrix, p.rows).line;
  sum_steps(ByteLayout(p.matrix).groups, largest, limits, rows_at<kRows>(rows, at.row), words, sum);
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
                                   std::int64_t row, std::int64_t end, std::int64_t tile,
                                   std::int32_t* sums) {
  const ByteLayout layout(p.matrix);
  const std::byte* from = p.packed + tile * layout.tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
    constexpr std::size_t kVectors = kRows == 1 ? std::min<std::size_t>(kByteVectors, 4) : 2;
    std::size_t column = 0;
    for (; column + kByteLanes < columns; column += kVectors * kByteLanes)
      multiply_byte_columns<Bytes_, kRows, kVectors>(p, rows, {at, tile, column, sums, row},
                                                     from + column * 4);
    if (column < columns)
      multiply_byte_columns<Bytes_, kRows, 1>(p, rows, {at, tile, column, sums, row},
                                              from + column * 4);
  });
}

/// So many rows share what it takes to widen the words of a tile, or to order its groups.
constexpr std::int64_t kManyRows = 4 * kMostByteRows;
/// Of the widened words of a tile: they have to fit into memory on the stack.
constexpr std::size_t kWidenedBytes = std::size_t{96} * 1024;
constexpr std::size_t kWidenedGroup =
    WidenedBytes::kWordRow * (WidenedBytes::kGroupBytes / WidenedBytes::kStepBytes);

HWY_NOINLINE void multiply_widened_rows(const ByteProduct& p, const PreparedBytes& rows,
                                        std::int64_t row, std::int64_t end, std::int64_t tile,
                                        std::int32_t* sums) {
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
      multiply_byte_columns<WidenedBytes, kRows, kVectors>(p, rows, {at, tile, column, sums, row},
                                                           widened);
    });
  }
}

/// multiply<vectors>(column, words) for all columns of a tile, two vectors or the last one at a time; words: theirs.
template <class Multiply>
HWY_INLINE void for_column_vectors(const ByteProduct& p, std::int64_t tile,
                                   const Multiply& multiply) {
  const std::byte* words = p.packed + tile * ByteLayout(p.matrix).tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  std::size_t column = 0;
  for (; column + kByteLanes < columns; column += 2 * kByteLanes)
    multiply.template operator()<2>(column, words + column * 4);
  if (column < columns) multiply.template operator()<1>(column, words + column * 4);
}

HWY_NOINLINE void multiply_paired_rows(const ByteProduct& p, const PreparedBytes& rows,
                                       std::int64_t row, std::int64_t end, std::int64_t tile,
                                       std::int32_t* sums) {
  const ByteLayout layout(p.matrix);
  GroupOrder order;
  for_column_vectors(
      p, tile, [&]<std::size_t kVectors>(std::size_t column, const std::byte* words) HWY_ATTR {
        order_groups<kVectors>(words, layout.groups, order);
        for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
          multiply_ordered_columns<kRows, kVectors>(p, rows, {at, tile, column, sums, row}, words,
                                                    order);
        });
      });
}

HWY_NOINLINE void multiply_stepped_rows(const ByteProduct& p, const PreparedBytes& rows,
                                        std::int64_t row, std::int64_t end, std::int64_t tile,
                                        std::int32_t* sums) {
  static_assert(kByteRowsOfTask<SteppedBytes> % kRowsOfBlock == 0);
  const ByteLayout layout(p.matrix);
  StepLimits limits;
  for_column_vectors(
      p, tile, [&]<std::size_t kVectors>(std::size_t column, const std::byte* words) HWY_ATTR {
        find_limits<kVectors>(words, layout.groups / 2, limits);
        const auto take = [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
          multiply_stepped_columns<kRows, kVectors>(p, rows, {at, tile, column, sums, row}, words,
                                                    limits);
        };
        std::int64_t at = row;
        for (; end - at >= kRowsOfBlock; at += kRowsOfBlock)
          take.template operator()<kRowsOfBlock>(at);
        for (; end - at >= 2; at += 2) take.template operator()<2>(at);
        if (at < end) take.template operator()<1>(at);
      });
}

/// Whether most steps are within limits, by some columns and some blocks of rows. A step that is not takes about
/// 2.7 times as long as one that is, one of WidenedBytes 1.5 times (AMD Zen 3).
HWY_NOINLINE bool steps_pay(const ByteProduct& p) {
  constexpr std::int64_t kSeenSteps = 128, kSeenBlocks = 6;
  const ByteLayout layout(p.matrix);
  const std::int64_t steps = std::min(layout.groups / 2, kSeenSteps);
  if (p.is_signed || !reads_in_place<SteppedBytes>(p) || steps == 0) return false;
  StepLimits limits;
  find_limits<2>(p.packed + layout.tiles / 2 * layout.tile_bytes, steps, limits);
  const ByteBlocks blocks(p.matrix, p.rows);
  HWY_ALIGN std::uint8_t largest[kSeenSteps];
  std::int64_t beyond = 0, seen = 0;
  for (std::int64_t i = 0; i < blocks.count;
       i += std::max<std::int64_t>(blocks.count / kSeenBlocks, 1)) {
    find_largest(p.a + i * kRowsOfBlock * row_stride(p),
                 std::min(kRowsOfBlock, p.rows - i * kRowsOfBlock), row_stride(p), steps, largest);
    for (std::int64_t line = 0; line < steps; line += kStepsAtOnce)
      beyond += std::popcount(steps_beyond(largest + line, limits.allowed + line,
                                           std::min(kStepsAtOnce, steps - line)));
    seen += steps;
  }
  return beyond * 4 <= seen;
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

/// Bytes of the sums of rows [row, end) of a vector of columns, as the rounded operations make them.
HWY_NOINLINE void divide_sums(const ByteProduct& p, const PreparedBytes& rows, const BytePlace& at,
                              std::int64_t end) {
  const Floats d;
  const std::int64_t first = at.tile * kByteColumns;
  const std::byte* tile = p.packed + at.tile * ByteLayout(p.matrix).tile_bytes;
  const ByteColumn column = load_column(p, rows, tile, first, at.column);
  const std::int64_t to = first + static_cast<std::int64_t>(at.column);
  const auto count = static_cast<std::size_t>(p.matrix.n - to);
  for (std::int64_t row = at.row; row < end; ++row) {
    const std::int32_t* sums = at.sums + (row - at.first_row) * kByteColumns + at.column;
    const auto sum = without_zeros(p, rows, row, column, hn::LoadU(Ints(), sums));
    auto value = hn::Mul(hn::ConvertTo(d, sum), column.scale);
    CTXGEN_KEEP(value);  // rounded, not joined with the sum
    if (p.bias != nullptr) value = hn::Add(value, column.bias);
    store_bytes(p.steps, value, count, p.bytes + row * p.matrix.n + to);
  }
}

/// The same by factors, of two vectors of columns; what they do not decide is divided.
HWY_NOINLINE void round_sums(const ByteProduct& p, const PreparedBytes& rows, const BytePlace& at,
                             std::int64_t end) {
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
  bool bounded;  // no number of units passes an integer

 private:
  HWY_INLINE DirectBytes(const ByteProduct& p, const ByteColumn (&by)[2])
      : start{hn::Neg(by[0].sums), hn::Neg(by[1].sums)},
        factors({by[0].scale, by[1].scale}, {by[0].bias, by[1].bias}, p.steps),
        bounded(factors.usable &&
                units_are_bounded(
                    p.matrix.k,
                    hn::Max(hn::Abs(factors.factor[0]), hn::Abs(factors.factor[1])),
                    hn::Max(hn::Abs(factors.addend[0]), hn::Abs(factors.addend[1])))) {}
};

/// Multiplies row `row` of vectors of columns again and makes bytes of it as the rounded operations do.
template <class Bytes_, std::size_t kVectors>
HWY_NOINLINE void divide_row(const ByteProduct& p, const PreparedBytes& rows, BytePlace at,
                             const std::byte* words) {
  HWY_ALIGN std::int32_t sums[kByteColumns];
  at.sums = sums;
  at.first_row = at.row;
  multiply_byte_columns<Bytes_, 1, kVectors>(p, rows, at, words);
  for (std::size_t v = 0; v < kVectors; ++v, at.column += kByteLanes)
    divide_sums(p, rows, at, at.row + 1);
}

/// `kRows` rows times `kVectors` vectors of columns, as bytes.
template <class Bytes_, std::size_t kRows, std::size_t kVectors, bool kBounded>
HWY_NOINLINE void multiply_to_bytes(const ByteProduct& p, const PreparedBytes& rows,
                                    const BytePlace& at, const std::byte* words,
                                    const DirectBytes& by) {
  hn::Vec<Ints> sum[kRows][kVectors];
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sum[r][v] = by.start[v]; });
  });
  add_columns<Bytes_, kRows, kVectors>(ByteLayout(p.matrix).groups, rows_at<kRows>(rows, at.row),
                                       words, sum);
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
    divide_row<Bytes_, kVectors>(
        p, rows, {at.row + std::countr_zero(unsure), at.tile, at.column, nullptr, 0}, words);
}

/// Rows [row, end) times a tile of columns, as bytes; false where factors do not decide them.
template <class Bytes_>
HWY_NOINLINE bool multiply_direct_rows(const ByteProduct& p, const PreparedBytes& rows,
                                       std::int64_t row, std::int64_t end, std::int64_t tile) {
  const std::byte* from = p.packed + tile * ByteLayout(p.matrix).tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for (std::size_t column = 0; column < columns; column += 2 * kByteLanes) {
    const bool two = columns - column > kByteLanes;
    const DirectBytes by(p, rows, tile, column, two);
    if (!by.factors.usable) return false;
    for_row_blocks(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
      const auto take = [&]<std::size_t kVectors>() HWY_ATTR {
        const BytePlace place{at, tile, column, nullptr, 0};
        if (by.bounded)
          multiply_to_bytes<Bytes_, kRows, kVectors, true>(p, rows, place, from + column * 4, by);
        else
          multiply_to_bytes<Bytes_, kRows, kVectors, false>(p, rows, place, from + column * 4, by);
      };
      if (two)
        take.template operator()<2>();
      else
        take.template operator()<1>();
    });
  }
  return true;
}

/// Sums of rows [row, end) of a tile of columns in tiles.
HWY_INLINE void sum_tile_rows(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                              std::int64_t end, std::int64_t tile, std::int32_t* sums,
                              TileShapes& shapes) {
  const ByteLayout layout(p.matrix);
  const std::int64_t last =
      std::max<std::int64_t>(end - kTileRows, row);  // of the copied rows, the first one
  const bool apart = rows.last_rows != nullptr && end == p.rows;
  const std::int64_t copied = last - std::max<std::int64_t>(p.rows - kTileRows, 0);
  sum_in_tiles({.rows = rows.rows + row * rows.stride,
                .last_rows = apart ? rows.last_rows + copied * layout.groups * 4 : nullptr,
                .stride = rows.stride,
                .last_stride = layout.groups * 4,
                .count = end - row,
                .words = p.packed + tile * layout.tile_bytes,
                .groups = layout.groups,
                .narrow = p.matrix.n - tile * kByteColumns <= kByteColumns / 2,
                .sums = sums},
               shapes);
}

template <class Bytes_>
HWY_INLINE void multiply_byte_part(const ByteProduct& p, const PreparedBytes& rows,
                                   std::int64_t row, std::int64_t end, std::int64_t tile,
                                   std::int32_t* sums, TileShapes& shapes) {
  if constexpr (std::is_same_v<Bytes_, TiledBytes>) {
    sum_tile_rows(p, rows, row, end, tile, sums, shapes);
  } else if constexpr (std::is_same_v<Bytes_, SteppedBytes>) {
    return multiply_stepped_rows(p, rows, row, end, tile, sums);
  } else if constexpr (std::is_same_v<Bytes_, PairedBytes>) {
    return multiply_paired_rows(p, rows, row, end, tile, sums);
  } else {
    if constexpr (std::is_same_v<Bytes_, WideBytes>) {
      const auto bytes = static_cast<std::size_t>(ByteLayout(p.matrix).groups) * kWidenedGroup;
      const bool narrow = p.matrix.n - tile * kByteColumns <= static_cast<std::int64_t>(kByteLanes);
      if (end - row >= kManyRows && bytes <= kWidenedBytes && !narrow)
        return multiply_widened_rows(p, rows, row, end, tile, sums);
    }
    multiply_byte_rows<Bytes_>(p, rows, row, end, tile, sums);
  }
}

template <class Bytes_>
HWY_NOINLINE void multiply_bytes(const ByteProduct& p, Workers& workers) {
  const PreparedBytes rows = prepare_rows<Bytes_>(p, workers);
  const std::int64_t tiles = ByteLayout(p.matrix).tiles;
  constexpr std::int64_t kMostRows = kByteRowsOfTask<Bytes_>;
  constexpr bool kTiled = std::is_same_v<Bytes_, TiledBytes>;
  const std::int64_t parts = divide_up(p.rows, kMostRows);
  const std::int64_t even = divide_up(p.rows, parts);  // parts take as long as each other
  const std::int64_t step_rows = std::min(divide_up(even, kUnitRows<Bytes_>) * kUnitRows<Bytes_>, kMostRows);
  // A small matrix stays in the second cache, rows are read and written by one core each, whole lines of an image. Measured:
  // without VNNI that gains nothing, and parts are less even.
  constexpr std::int64_t kSmallMatrix = 256 * 1024;
  constexpr bool kSlow = std::is_same_v<Bytes_, SteppedBytes> ||
                         std::is_same_v<Bytes_, PairedBytes> || std::is_same_v<Bytes_, WideBytes>;
  const bool by_rows = !kSlow && p.matrix.n <= kSmallMatrix / p.matrix.k;
  const auto part = [&](std::int64_t i, TileShapes& shapes) HWY_ATTR {
    const std::int64_t row = (by_rows ? i / tiles : i % parts) * step_rows;
    const std::int64_t end = std::min(row + step_rows, p.rows), tile = by_rows ? i % tiles : i / parts;
    if (row >= end) return;
    if (!kTiled && p.bytes == nullptr)
      return multiply_byte_part<Bytes_>(p, rows, row, end, tile, nullptr, shapes);
#if CTXGEN_HAVE_VNNI
    if constexpr (std::is_same_v<Bytes_, VnniBytes>)
      if (rows.row_sums == nullptr && multiply_direct_rows<Bytes_>(p, rows, row, end, tile)) return;
#endif
    HWY_ALIGN std::int32_t sums[kMostRows * kByteColumns];
    multiply_byte_part<Bytes_>(p, rows, row, end, tile, sums, shapes);
    if (p.bytes == nullptr) return write_tile_sums(p, rows, {row, tile, 0, sums, row}, end);
    const std::int64_t columns = std::min(kByteColumns, p.matrix.n - tile * kByteColumns);
    for (std::size_t c = 0; c < static_cast<std::size_t>(columns); c += 2 * kByteLanes)
      round_sums(p, rows, {row, tile, c, sums, row}, end);
  };
  // Starting threads costs as much as a million products.
  constexpr std::int64_t kWorthThreads = 1024 * 1024;
  const std::int64_t all = tiles * parts;
  const bool alone = dynamic_cast<const OneThread*>(&workers) != nullptr ||
                     p.rows < kWorthThreads / p.matrix.k / p.matrix.n;
  // In tiles, parts of less than two million products are taken together: these share the shapes.
  constexpr std::int64_t kTogether = std::int64_t{2} << 20, kLeastTasks = 8;
  const std::int64_t together = kTiled ? kTogether / (kMostRows * kByteColumns) / p.matrix.k + 1 : 1;
  const std::int64_t step = alone ? all : std::clamp<std::int64_t>(all / kLeastTasks, 1, together);
  const auto take = [&](std::int64_t task) HWY_ATTR {
    TileShapes shapes;
    for (std::int64_t i = task * step; i < std::min((task + 1) * step, all); ++i) part(i, shapes);
  };
  if (alone) return take(0);
  workers.parallel_for((all + step - 1) / step, take);
}

/// Whether tiles are faster: few rows or short ones leave them empty.
HWY_INLINE bool tiles_pay(const ByteProduct& p) {
  constexpr std::int64_t kLeastRows = 4;
  constexpr std::int64_t kLeastDepth = 32;
  return p.rows >= kLeastRows && p.matrix.k >= kLeastDepth && may_use_tiles();
}

HWY_NOINLINE void multiply_all(const ByteProduct& p, bool vnni, Workers& workers) {
#if HWY_ARCH_X86_64 && HWY_TARGET == HWY_AVX3
  if (tiles_pay(p)) return multiply_bytes<TiledBytes>(p, workers);
#endif
#if CTXGEN_HAVE_VNNI
  if (vnni) return multiply_bytes<VnniBytes>(p, workers);
#else
  (void)vnni;
#endif
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2  // SSE2 has no products of bytes
  if (p.rows >= kManyRows && ByteLayout(p.matrix).groups / 2 <= SteppedBytes::kMostSteps &&
      steps_pay(p))
    return multiply_bytes<SteppedBytes>(p, workers);
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
  // Rows as 16-bit integers, their sums, the lines of blocks, and what aligns them.
  const auto row_bytes = static_cast<std::uint64_t>(ByteRows(matrix, 0, kMostGroupBytes).stride +
                                                    (matrix.zeros ? 4 : 0));
  const ByteBlocks blocks(matrix, rows);
  const auto block_bytes = row_bytes * kRowsOfBlock + static_cast<std::uint64_t>(blocks.line);
  const auto bytes = checked_mul(static_cast<std::uint64_t>(blocks.count), block_bytes);
  constexpr std::uint64_t kAlignment = 64;
  if (!bytes || *bytes > INT64_MAX - kAlignment) return std::nullopt;
  return *bytes + (matrix.zeros ? kAlignment : 0);
}

void byte_product(const ByteProduct& product, Workers& workers) {
  if (product.rows <= 0) return;
  const bool vnni = may_use_vnni();
  CTXGEN_DISPATCH(multiply_all(product, vnni, workers));
}

}  // namespace ctxgen::kernels
#endif
