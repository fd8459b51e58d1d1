#include <algorithm>
#include <cstdint>
#include <limits>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/product.h"

#include "stretches.h"
#include "window_rows.h"

namespace ctxgen::kernels {

namespace {

constexpr std::int64_t kPartColumns = 256;
constexpr std::int64_t kLeastPartRows = 28;
constexpr std::int64_t kPartWork = 1 << 20;  // multiply-adds that are worth a part of their own
constexpr std::int64_t kStreamPartWork = 1 << 16;  // where they wait for the panels

/// Rows of parts of about equal size.
std::int64_t even_part(std::int64_t rows) {
  const std::int64_t parts = std::max<std::int64_t>(divide_up(rows, kMostPartRows), 1);
  return std::clamp<std::int64_t>(divide_up(divide_up(rows, parts), 14) * 14, 14, kMostPartRows);
}

/// Columns that tiles take at once: of two panels where one is narrow (columns_of_unit() of product.cpp).
std::int64_t unit_columns(std::int64_t block) {
  const bool narrow = block == (simd_level() >= SimdLevel::kAvx512 ? 32 : 16);
  return narrow ? 2 * block : block;
}

/// Whether the smaller operand is the left one.
bool is_left_smaller(const Windows& windows, const PackedMatrix& matrix) {
  const std::int64_t pixels = windows.images * windows.size[0] * windows.size[1];
  return pixels * windows.channels < std::max<std::int64_t>(windows.depth(), 1) * matrix.columns;
}

}  // namespace

std::int64_t ProductParts::count() const {
  if (rows <= 0 || columns <= 0) return 0;
  return divide_up(rows, part_rows) * divide_up(columns, part_columns);
}

ProductPart ProductParts::part(std::int64_t index) const {
  const std::int64_t down = divide_up(rows, part_rows), across = divide_up(columns, part_columns);
  const std::int64_t row = (rows_first ? index % down : index / across) * part_rows;
  const std::int64_t column = (rows_first ? index / down : index % across) * part_columns;
  return {row, std::min(part_rows, rows - row), column, std::min(part_columns, columns - column)};
}

ProductParts::GroupPart ProductParts::part_of_groups(std::int64_t index,
                                                     std::int64_t groups) const {
  if (!groups_inside) return {index / count(), index % count()};
  const std::int64_t across = divide_up(columns, part_columns);
  const std::int64_t down = index / (groups * across), rest = index % (groups * across);
  return {rest / across, down * across + rest % across};
}

ProductParts product_parts(const Windows& windows, const PackedMatrix& matrix,
                           std::int64_t wanted) {
  const std::int64_t depth = std::max<std::int64_t>(windows.depth(), 1);
  ProductParts parts{.rows = windows.rows(),
                     .columns = matrix.columns,
                     .part_rows = even_part(windows.rows()),
                     .part_columns = kPartColumns / matrix.block * matrix.block,
                     .rows_first = is_left_smaller(windows, matrix)};
  // Windows at the edges are rows of their own, of which few parts have more at once.
  const bool few_rows = windows.kernel == Windows::Pair{1, 1};
  const std::int64_t least_work =
      few_rows && parts.rows <= most_stream_rows() ? kStreamPartWork : kPartWork;
  const std::int64_t unit = unit_columns(matrix.block);
  while (parts.count() < wanted) {
    const std::int64_t rows = std::min(parts.part_rows, parts.rows);
    const std::int64_t columns = std::min(parts.part_columns, parts.columns);
    if (rows * columns / 2 < least_work / depth) break;
    const bool can_rows = rows > kLeastPartRows, can_columns = columns > unit;
    if (can_rows && (few_rows || !can_columns))
      parts.part_rows = divide_up(divide_up(rows, 2), 14) * 14;
    else if (can_columns)
      parts.part_columns = divide_up(divide_up(columns, 2), unit) * unit;
    else
      break;
  }
  return parts;
}

namespace {

/// Whether even parts pay. Rows that one stream reads do without, and so do, measured with AVX2, those of a plain matrix.
bool pays_even_parts(const Windows& windows) {
  if (windows.rows() <= most_stream_rows()) return false;
  return simd_level() >= SimdLevel::kAvx512 || !windows.is_matrix();
}

/// What rows cost that come from other threads' caches, in rows of a unit's time: of the source, and of the result, which the next
/// operator reads. Measured (docs/onednn.md, "Packed weights"): 24 GB/s from another core, so that with AVX-512 a row comes in a third of
/// the time of its products with a unit, with AVX2 in a sixth.
std::int64_t fetching_time(std::int64_t rows, std::int64_t depth, std::int64_t columns,
                           std::int64_t team) {
  const std::int64_t rows_per_fetch = simd_level() >= SimdLevel::kAvx512 ? 3 : 6;
  const std::int64_t fetched = rows * (team - 1) / team / rows_per_fetch;
  return fetched + fetched * (columns / team) / depth;
}

/// The parts of which a thread has least to do, as large as possible. Where a depth has several chunks, all but the first add to
/// what is there: then a part has as many columns as stay in the second cache with the rows, which are read once for all of them.
ProductParts even_parts(const Windows& windows, const PackedMatrix& matrix, int threads) {
  constexpr std::int64_t kUnitRows = 8;  // that take as long as a unit's panels take to come
  constexpr std::int64_t kKeptElements = 192 * 1024;  // of a part that chunks add to
  const std::int64_t rows = windows.rows(), depth = std::max<std::int64_t>(windows.depth(), 1);
  const std::int64_t team = std::max(threads, 1);
  const std::int64_t unit = unit_columns(matrix.block), units = divide_up(matrix.columns, unit);
  const std::int64_t fewest = divide_up(rows, kMostPartRows);
  const std::int64_t fetching = fetching_time(rows, depth, matrix.columns, team);
  ProductParts best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::int64_t down = fewest; down <= fewest + team; ++down) {
    ProductParts parts{.rows = rows, .columns = matrix.columns, .part_rows = divide_up(rows, down)};
    // Each thread has rows of its own then, with all columns.
    const bool apart = divide_up(rows, parts.part_rows) % team == 0;
    parts.rows_first = (team == 1 || !apart) && is_left_smaller(windows, matrix);
    const std::int64_t kept = depth <= kChunk ? kPartColumns : kKeptElements / parts.part_rows;
    const std::int64_t most = std::clamp<std::int64_t>(kept / unit, 1, units);
    for (std::int64_t across = most; across > 0; --across) {
      const bool first = down == fewest && across == most;
      if (!first && parts.part_rows * across * unit < kPartWork / depth) break;
      parts.part_columns = across * unit;
      const std::int64_t of_a_thread = divide_up(parts.count(), team);
      const std::int64_t time =
          of_a_thread * across * (parts.part_rows + kUnitRows) + (apart ? 0 : fetching);
      if (time >= least) continue;
      least = time;
      best = parts;
    }
  }
  return best;
}

/// Each thread has rows of its own, of all groups: those that it made, and that it reads next.
ProductParts parts_of_rows(const Windows& windows, const PackedMatrix& matrix, int threads) {
  const std::int64_t rows = windows.rows();
  const std::int64_t down = divide_up(rows, threads * kMostPartRows) * threads;
  return {.rows = rows,
          .columns = matrix.columns,
          .part_rows = divide_up(rows, down),
          .part_columns = kPartColumns / matrix.block * matrix.block,
          .groups_inside = true};
}

}  // namespace

ProductParts parts_of_team(const Windows& windows, const PackedMatrix& matrix, int threads,
                           std::int64_t groups) {
  constexpr std::int64_t kPartsPerThread = 8;  // enough to end at about the same time
  if (groups == 1 && pays_even_parts(windows)) return even_parts(windows, matrix, threads);
  const bool enough_rows = windows.rows() >= threads * kLeastPartRows;
  if (groups > 1 && threads > 1 && enough_rows && !is_left_smaller(windows, matrix))
    return parts_of_rows(windows, matrix, threads);
  const std::int64_t wanted = threads <= 1 ? 1 : threads * kPartsPerThread / groups;
  return product_parts(windows, matrix, std::max<std::int64_t>(wanted, 1));
}

std::int64_t most_stream_rows() { return simd_level() >= SimdLevel::kAvx512 ? 6 : 3; }

}  // namespace ctxgen::kernels
