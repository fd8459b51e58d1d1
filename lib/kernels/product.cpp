#include "ctxgen/kernels/product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "product_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// The rows of a group times kVectors vectors of columns, of which the result has `columns`, in tiles
/// of about as many rows each.
template <std::size_t kVectors>
HWY_INLINE void multiply_rows(Tile tile, std::int64_t rows, std::int64_t columns) {
  constexpr auto kMost = static_cast<std::int64_t>(kRowsOf<kVectors>);
  const bool whole = columns >= static_cast<std::int64_t>(kVectors * kLanes);
  for (std::int64_t tiles = (rows + kMost - 1) / kMost; tiles > 0; --tiles) {
    const std::int64_t count = (rows + tiles - 1) / tiles;
    const TileFunction multiply = kTiles<kVectors>[static_cast<std::size_t>(count - 1)];
    if (whole)
      multiply(tile);
    else
      multiply_narrow(multiply, tile, count, columns);
    tile.offsets += count;
    tile.numbers += count;
    rows -= count;
  }
}

/// Vectors of a tile, as the block divides. Four where there are registers for many rows, or where few
/// rows need no more: an element of a row is then loaded for more products. Else two.
HWY_INLINE std::size_t vectors_of(std::int64_t block, std::int64_t rows) {
  const auto vectors = static_cast<std::size_t>(block) / kLanes;
  const bool four = kLanes >= 16 || rows <= static_cast<std::int64_t>(kRowsOf<4>);
  if (vectors % 4 == 0 && four) return 4;
  if (vectors % 2 == 0) return 2;
  return vectors % 3 == 0 ? 3 : 1;
}

/// Which of the chunks of a product's depth it is.
struct Chunk {
  bool first, last;
};

/// A group's rows times the part's columns, one chunk of the depth. `tile` has what all tiles share.
HWY_INLINE void multiply_group(const PanelProduct& p, const ProductPart& part, const Chunk& chunk,
                               Tile tile, std::int64_t rows) {
  const std::size_t vectors = vectors_of(p.matrix.block, rows);
  const auto step = static_cast<std::int64_t>(vectors * kLanes);
  const std::int64_t end = part.column + part.columns;
  const float* from = chunk.first ? p.finish.start : p.result;
  tile.from_pitch = chunk.first ? p.finish.start_pitch : p.result_pitch;
  for (std::int64_t column = part.column; column < end; column += step) {
    tile.panel =
        p.matrix.panels + column / p.matrix.block * p.matrix.panel_floats + column % p.matrix.block;
    tile.from = from == nullptr ? nullptr : from + part.row * tile.from_pitch + column;
    tile.to = p.result + part.row * p.result_pitch + column;
    tile.bias = p.finish.bias == nullptr ? nullptr : p.finish.bias + column;
    switch (vectors) {
      case 4: multiply_rows<4>(tile, rows, end - column); break;
      case 3: multiply_rows<3>(tile, rows, end - column); break;
      case 2: multiply_rows<2>(tile, rows, end - column); break;
      default: multiply_rows<1>(tile, rows, end - column); break;
    }
  }
}

HWY_NOINLINE void multiply_part(const PanelProduct& p, const ProductPart& part) {
  const WindowRows rows(p.windows, part.row, part.rows);
  Runs runs;
  const std::int64_t depth = p.windows.depth();
  Tile tile{};
  tile.src = p.src;
  tile.runs = runs.data();
  tile.block = p.matrix.block;
  tile.to_pitch = p.result_pitch;
  tile.clamped = p.finish.low > -std::numeric_limits<float>::infinity() ||
                 p.finish.high < std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k == 0 || k < depth; k += kChunk) {
    const Chunk chunk{k == 0, k + kChunk >= depth};
    tile.finish = chunk.last ? &p.finish : nullptr;
    for (const WindowRows::Group& group : rows.groups()) {
      tile.offsets = rows.offsets() + group.first;
      tile.numbers = rows.numbers() + group.first;
      tile.run_count = find_runs(p.windows, group.cover, k, kChunk, runs);
      if (tile.run_count > 0 || chunk.first || chunk.last)
        multiply_group(p, part, chunk, tile, group.count);
    }
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

namespace {

constexpr std::int64_t kPartColumns = 256;
constexpr std::int64_t kLeastPartRows = 28;
constexpr std::int64_t kPartWork = 1 << 20;  // multiply-adds that are worth a part of their own

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

/// Rows of parts of about equal size.
std::int64_t even_part(std::int64_t rows) {
  const std::int64_t parts = std::max<std::int64_t>(divide_up(rows, kMostPartRows), 1);
  return std::clamp<std::int64_t>(divide_up(divide_up(rows, parts), 14) * 14, 14, kMostPartRows);
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

ProductParts product_parts(const Windows& windows, const PackedMatrix& matrix,
                           std::int64_t wanted) {
  const std::int64_t depth = std::max<std::int64_t>(windows.depth(), 1);
  const std::int64_t pixels = windows.images * windows.size[0] * windows.size[1];
  ProductParts parts{.rows = windows.rows(),
                     .columns = matrix.columns,
                     .part_rows = even_part(windows.rows()),
                     .part_columns = kPartColumns / matrix.block * matrix.block,
                     .rows_first = pixels * windows.channels < depth * matrix.columns};
  // Windows at the edges are rows of their own, of which few parts have more at once.
  const bool few_rows = windows.kernel == Windows::Pair{1, 1};
  while (parts.count() < wanted) {
    const std::int64_t rows = std::min(parts.part_rows, parts.rows);
    const std::int64_t columns = std::min(parts.part_columns, parts.columns);
    if (rows * columns / 2 < kPartWork / depth) break;
    const bool can_rows = rows > kLeastPartRows, can_columns = columns > matrix.block;
    if (can_rows && (few_rows || !can_columns))
      parts.part_rows = divide_up(divide_up(rows, 2), 14) * 14;
    else if (can_columns)
      parts.part_columns = divide_up(divide_up(columns, 2), matrix.block) * matrix.block;
    else
      break;
  }
  return parts;
}

void multiply_panels(const PanelProduct& product, const ProductPart& part) {
  CTXGEN_DISPATCH(multiply_part(product, part));
}

}  // namespace ctxgen::kernels
#endif
