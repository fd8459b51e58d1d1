#include "ctxgen/kernels/byte_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/lane_share.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bytes/byte_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "bytes/byte_finish-inl.h"
#include "bytes/byte_limits.h"
#include "bytes/byte_pairs-inl.h"
#include "bytes/byte_prepare-inl.h"
#include "bytes/byte_steps-inl.h"
#include "bytes/byte_sums-inl.h"
#include "bytes/byte_tiles.h"
#include "bytes/byte_vnni-inl.h"
#include "stretches.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Rows that are multiplied at once, and a part of the rows: a task.
constexpr std::size_t kMostByteRows = kByteLanes >= 16 ? 12 : kByteLanes >= 8 ? 6 : 4;
template <class Bytes_>
constexpr std::int64_t kByteRowsOfTask = 120;
template <>
constexpr std::int64_t kByteRowsOfTask<TiledBytes> = 128;

/// What a part of the rows is a multiple of, but the last one.
template <class Bytes_>
constexpr std::int64_t kUnitRows = kMostByteRows;
template <>
constexpr std::int64_t kUnitRows<TiledBytes> = kTileRows;
template <>
constexpr std::int64_t kUnitRows<SteppedBytes> = kRowsOfBlock;

template <class Bytes_>
constexpr bool is_vnni = false;
#if CTXGEN_HAVE_VNNI
template <>
constexpr bool is_vnni<VnniBytes> = true;
template <>
constexpr std::int64_t kUnitRows<VnniBytes> = kMostVnniRows;
template <>
constexpr std::int64_t kByteRowsOfTask<VnniBytes> = 120 / kMostVnniRows * kMostVnniRows;
#endif

/// `kRows` rows times `kVectors` vectors of columns, whose words begin at `words`.
template <class Bytes_, std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_byte_columns(const ByteProduct& p, const PreparedBytes& rows,
                                        const BytePlace& at, const std::byte* words) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_columns<Bytes_, kRows, kVectors>(ByteLayout(p.matrix).groups, rows_at<kRows>(rows, at.row),
                                       words, sum);
  write_byte_columns(p, rows, at, sum);
}

/// The same by steps.
template <std::size_t kRows, std::size_t kVectors>
HWY_NOINLINE void multiply_stepped_columns(const ByteProduct& p, const PreparedBytes& rows,
                                           const BytePlace& at, const std::byte* words,
                                           const StepBounds& bounds, const std::byte* ahead,
                                           const ByteColumns<kVectors>& columns) {
  hn::Vec<Ints> sum[kRows][kVectors];
  sum_steps(ByteLayout(p.matrix).groups, bounds, rows_at<kRows>(rows, at.row), words, ahead, sum);
  if (at.sums != nullptr) return keep_sums(at, sum);
  write_columns(p, rows, at.row, columns, sum);
}

template <class Bytes_>
HWY_INLINE void multiply_byte_rows(const ByteProduct& p, const PreparedBytes& rows,
                                   std::int64_t row, std::int64_t end, std::int64_t tile,
                                   std::int32_t* sums) {
  const ByteLayout layout(p.matrix);
  const std::byte* from = p.packed + tile * layout.tile_bytes;
  const auto columns =
      static_cast<std::size_t>(std::min(kByteColumns, p.matrix.n - tile * kByteColumns));
  for_row_blocks<kMostByteRows>(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
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
    for_row_blocks<kMostByteRows>(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
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

HWY_NOINLINE void multiply_stepped_rows(const ByteProduct& p, const PreparedBytes& rows,
                                        std::int64_t row, std::int64_t end, std::int64_t tile,
                                        std::int32_t* sums) {
  static_assert(kByteRowsOfTask<SteppedBytes> % kRowsOfBlock == 0);
  const LimitLines limits(p.matrix, p.packed);
  const std::int64_t line = ByteBlocks(p.matrix, p.rows).line;
  const std::uint8_t* largest = rows.largest + row / kRowsOfBlock * line;
  // The first blocks of rows ask for the next tile.
  const std::byte* ahead = p.packed + (tile + 1) * ByteLayout(p.matrix).tile_bytes;
  const std::byte* end_of_next = ahead + ByteLayout(p.matrix).tile_bytes;
  for_column_vectors(
      p, tile, [&]<std::size_t kVectors>(std::size_t column, const std::byte* words) HWY_ATTR {
        const std::uint8_t* allowed = limits.line(tile, column);
        const ByteColumns<kVectors> columns(p, rows, tile, column);
        for_row_blocks<kRowsOfBlock>(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
          const StepBounds bounds{largest + (at - row) / kRowsOfBlock * line, allowed};
          multiply_stepped_columns<kRows, kVectors>(p, rows, {at, tile, column, sums, row}, words,
                                                    bounds, ahead, columns);
          ahead = std::min(ahead + limits.steps * kLineBytes, end_of_next);
        });
      });
}

/// Whether steps are faster than WidenedBytes, by some columns and some blocks of rows, and by how long each way takes (Intel
/// Xeon with AVX2; rows of s8 count as if all were 255).
HWY_NOINLINE bool steps_pay(const ByteProduct& p) {
  constexpr std::int64_t kSeenSteps = 128, kSeenBlocks = 6;
  constexpr int kTogether = 10, kPairs = 13, kAny = 27, kWidened = 15;
  const LimitLines limits(p.matrix, p.packed);
  const std::int64_t steps = std::min(limits.steps, kSeenSteps);
  if (steps == 0) return false;
  const std::uint8_t* line = limits.line(ByteLayout(p.matrix).tiles / 2, 0);
  const ByteBlocks blocks(p.matrix, p.rows);
  HWY_ALIGN std::uint8_t largest[kSeenSteps];
  std::fill_n(largest, kSeenSteps, std::uint8_t{255});
  const bool in_place = reads_in_place<SteppedBytes>(p);
  int taken = 0, widened = 0;
  for (std::int64_t i = 0; i < blocks.count;
       i += std::max<std::int64_t>(blocks.count / kSeenBlocks, 1)) {
    if (in_place)
      find_largest(p.a + i * kRowsOfBlock * row_stride(p),
                   std::min(kRowsOfBlock, p.rows - i * kRowsOfBlock), row_stride(p), steps,
                   largest);
    for (std::int64_t at = 0; at < steps; at += kStepsAtOnce) {
      const auto ways =
          ways_of<2>(largest + at, line + at, limits.steps, std::min(kStepsAtOnce, steps - at));
      taken += std::popcount(ways.together) * kTogether + std::popcount(ways.pairs) * kPairs +
               std::popcount(ways.any) * kAny;
    }
    widened += static_cast<int>(steps) * kWidened;
  }
  return taken < widened;
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

/// The result of rows [row, end), kByteRowsOfTask at most, of a tile of columns.
template <class Bytes_>
HWY_NOINLINE void multiply_part(const ByteProduct& p, const PreparedBytes& rows, std::int64_t row,
                                std::int64_t end, std::int64_t tile, TileShapes& shapes) {
  constexpr bool kTiled = std::is_same_v<Bytes_, TiledBytes>, kVnni = is_vnni<Bytes_>;
  if (!kTiled && !kVnni && p.bytes == nullptr)
    return multiply_byte_part<Bytes_>(p, rows, row, end, tile, nullptr, shapes);
  HWY_ALIGN std::int32_t sums[kByteRowsOfTask<Bytes_> * kByteColumns];
#if CTXGEN_HAVE_VNNI
  if constexpr (kVnni)
    if (p.rows > 1 || p.bytes != nullptr || p.lines.rows > 0)
      return multiply_vnni_rows(p, rows, row, end, tile, sums);
#endif
  multiply_byte_part<Bytes_>(p, rows, row, end, tile, sums, shapes);
  if (p.bytes == nullptr) return write_tile_sums(p, rows, {row, tile, 0, sums, row}, end);
  const std::int64_t columns = std::min(kByteColumns, p.matrix.n - tile * kByteColumns);
  for (std::size_t c = 0; c < static_cast<std::size_t>(columns); c += 2 * kByteLanes)
    round_sums(p, rows, {row, tile, c, sums, row}, end);
}

/// Whether each worker takes rows of its own, so that it finds in its cache what it wrote before. All of them read the whole
/// matrix then, and widen it.
template <class Bytes_>
HWY_INLINE bool has_lanes(const ByteProduct& p) {
  constexpr std::int64_t kLeastRows = std::is_same_v<Bytes_, WideBytes> ? 2 * kManyRows : 24,
                         kMostElements = std::int64_t{1} << 20;
  return p.lanes > 1 && p.rows / p.lanes >= kLeastRows && p.lines.rows == 0 && p.tiles == 0 &&
         p.matrix.n <= kMostElements / p.matrix.k;
}

template <class Bytes_>
HWY_NOINLINE void multiply_lanes(const ByteProduct& p, const PreparedBytes& rows,
                                 Workers& workers) {
  constexpr bool kStepped = std::is_same_v<Bytes_, SteppedBytes>;
  constexpr std::int64_t kUnit = std::is_same_v<Bytes_, TiledBytes> ? kTileRows : kRowsOfBlock,
                         kMost = kByteRowsOfTask<Bytes_> / kUnit;  // units
  workers.parallel_for(p.lanes, [&](std::int64_t lane) HWY_ATTR {
    const auto [first, end] = lane_share(divide_up(p.rows, kUnit), p.lanes, lane);
    if constexpr (kStepped) find_blocks(p, rows, first, end);
    const std::int64_t step = divide_up(end - first, divide_up(end - first, kMost));
    TileShapes shapes;
    for (std::int64_t i = first; i < end; i += step)
      for (std::int64_t tile = 0; tile < ByteLayout(p.matrix).tiles; ++tile)
        multiply_part<Bytes_>(p, rows, i * kUnit, std::min(std::min(i + step, end) * kUnit, p.rows),
                              tile, shapes);
  });
}

template <class Bytes_>
HWY_NOINLINE void multiply_bytes(const ByteProduct& p, Workers& workers) {
  const PreparedBytes rows = prepare_rows<Bytes_>(p, workers);
  // Starting threads costs as much as a million products.
  constexpr std::int64_t kWorthThreads = 1024 * 1024;
  const bool alone = dynamic_cast<const OneThread*>(&workers) != nullptr ||
                     p.rows < kWorthThreads / p.matrix.k / p.matrix.n;
  if (!alone && has_lanes<Bytes_>(p)) return multiply_lanes<Bytes_>(p, rows, workers);
  constexpr bool kTiled = std::is_same_v<Bytes_, TiledBytes>;
  constexpr bool kStepped = std::is_same_v<Bytes_, SteppedBytes>;
  if constexpr (kStepped) find_blocks(p, rows, 0, ByteBlocks(p.matrix, p.rows).count);
  const std::int64_t tiles = p.tiles > 0 ? p.tiles : ByteLayout(p.matrix).tiles;
  constexpr std::int64_t kMostRows = kByteRowsOfTask<Bytes_>;
  static_assert(kMostRows % kUnitRows<Bytes_> == 0);
  const std::int64_t line = p.lines.rows;
  const std::int64_t unit = line > 0 && line <= kMostRows ? line : kUnitRows<Bytes_>;
  const std::int64_t parts = divide_up(p.rows, kMostRows / unit * unit);
  const std::int64_t even = divide_up(p.rows, parts);  // parts take as long as each other
  const std::int64_t step_rows = std::min(divide_up(even, unit), kMostRows / unit) * unit;
  // A small matrix stays in the second cache, rows are read and written by one core each, whole lines of an image. Measured:
  // without VNNI that gains nothing, and parts are less even.
  constexpr std::int64_t kSmallMatrix = 256 * 1024;
  constexpr bool kSlow = kStepped || std::is_same_v<Bytes_, WideBytes>;
  const bool by_rows = !kSlow && p.matrix.n <= kSmallMatrix / p.matrix.k;
  // In tiles, parts of less than two million products are taken together: these share the shapes.
  constexpr std::int64_t kTogether = std::int64_t{2} << 20, kLeastTasks = 8;
  const std::int64_t together =
      kTiled ? kTogether / (kMostRows * kByteColumns) / p.matrix.k + 1 : 1;
  const std::int64_t all = tiles * parts;
  const std::int64_t step = alone ? all : std::clamp<std::int64_t>(all / kLeastTasks, 1, together);
  const auto take = [&](std::int64_t task) HWY_ATTR {
    TileShapes shapes;
    for (std::int64_t i = task * step; i < std::min((task + 1) * step, all); ++i) {
      const std::int64_t row = (by_rows ? i / tiles : i % parts) * step_rows;
      const std::int64_t tile = p.first_tile + (by_rows ? i % tiles : i / parts);
      if (row < p.rows)
        multiply_part<Bytes_>(p, rows, row, std::min(row + step_rows, p.rows), tile, shapes);
    }
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
#if HWY_TARGET != HWY_SSE2  // has no products of bytes
  if (p.rows >= kManyRows && steps_pay(p)) return multiply_bytes<SteppedBytes>(p, workers);
#endif
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

bool takes_lines() { return may_use_vnni() && !may_use_tiles(); }

void byte_product(const ByteProduct& product, Workers& workers) {
  if (product.rows <= 0) return;
  const bool vnni = may_use_vnni();
  CTXGEN_DISPATCH(multiply_all(product, vnni, workers));
}

}  // namespace ctxgen::kernels
#endif
