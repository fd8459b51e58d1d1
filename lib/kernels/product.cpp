#include "ctxgen/kernels/product.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "product_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// The panels of a chunk that follow, which are to come from memory while a unit's tiles multiply.
struct NextUnit {
  Ahead ahead;  // all its lines that nothing has asked for; none: nothing follows

  /// What the next tile asks for in so many steps.
  [[nodiscard]] Ahead share(std::int64_t steps) {
    Ahead part = ahead;
    part.lines = HWY_MIN(steps / kStepsOfTurn * ahead.lines_of_turn, ahead.lines);
    for (const std::byte*& place : ahead.places) place += part.lines * kLineBytes;
    ahead.lines -= part.lines;
    return part;
  }
};

/// The rows of a group times kVectors vectors of columns, of which the result has `columns`, in tiles of about as many rows each.
/// `steps`: how many of the chunk's rows of panels they have.
template <std::size_t kVectors>
HWY_INLINE void multiply_rows(Tile tile, std::int64_t rows, std::int64_t columns,
                              std::int64_t steps, NextUnit& next) {
  constexpr auto kMost = static_cast<std::int64_t>(kRowsOf<kVectors>);
  const bool whole = columns >= static_cast<std::int64_t>(kVectors * kLanes);
  for (std::int64_t tiles = (rows + kMost - 1) / kMost; tiles > 0; --tiles) {
    const std::int64_t count = (rows + tiles - 1) / tiles;
    const TileFunction multiply = kTiles<kVectors>[static_cast<std::size_t>(count - 1)];
    tile.ahead = next.ahead.lines > 0 ? next.share(steps) : Ahead{};
    if (whole)
      multiply(tile);
    else
      multiply_narrow(multiply, tile, count, columns);
    tile.offsets += count;
    tile.numbers += count;
    rows -= count;
  }
}

/// Columns that a group's rows take before the next group's: of a panel, or of two narrow ones.
HWY_INLINE std::int64_t columns_of_unit(std::int64_t block) {
  return block == static_cast<std::int64_t>(2 * kLanes) ? 2 * block : block;
}

/// Vectors of a tile, as the columns divide. Four where there are registers for many rows, or where few
/// rows need no more: an element of a row is then loaded for more products, and sums wait less for each
/// other. Else two.
HWY_INLINE std::size_t vectors_of(std::int64_t columns, std::int64_t rows) {
  const auto vectors = static_cast<std::size_t>(columns) / kLanes;
  const bool four = kLanes >= 16 || rows <= static_cast<std::int64_t>(kRowsOf<4>);
  if (vectors % 4 == 0 && four) return 4;
  if (vectors % 2 == 0) return 2;
  return vectors % 3 == 0 ? 3 : 1;
}

/// Vectors of a tile that starts where the result has so many more columns: no more than these take.
HWY_INLINE std::size_t vectors_left(std::size_t most, std::int64_t columns, std::int64_t block) {
  const std::size_t needed = (static_cast<std::size_t>(columns) + kLanes - 1) / kLanes;
  if (needed >= most) return most;
  const bool two_panels = most == 4 && block == static_cast<std::int64_t>(2 * kLanes);
  return needed == 3 && two_panels ? 2 : needed;
}

/// Of narrow panels, whose part is widened into memory of its own first. Measured: 3 % faster than 256 with AVX2.
inline constexpr std::int64_t kNarrowChunk = kLanes >= 16 ? 256 : 384;

/// Columns of the panels that tiles read. Widened ones are as narrow as tiles, whose lines of memory then follow each other:
/// those of wide panels would share few places of the first cache.
HWY_INLINE std::int64_t block_of(const PackedMatrix& matrix) {
  const bool as_stored = matrix.type == PanelType::kFloat || kLanes >= 16;
  return as_stored ? matrix.block : HWY_MIN(matrix.block, static_cast<std::int64_t>(2 * kLanes));
}

/// Rows of `block` columns, of a panel of `pitch` columns, one after the other.
template <class Narrow>
HWY_INLINE void widen(const std::uint16_t* HWY_RESTRICT from, std::int64_t pitch, std::int64_t rows,
                      std::int64_t block, float* HWY_RESTRICT to) {
  const Floats d;
  const hn::Rebind<std::uint16_t, Floats> half;
  const hn::Rebind<Narrow, Floats> narrow;
  for (std::int64_t r = 0; r < rows; ++r, from += pitch, to += block)
    for (std::int64_t c = 0; c < block; c += static_cast<std::int64_t>(kLanes))
      hn::Store(hn::PromoteTo(d, hn::BitCast(narrow, hn::LoadU(half, from + c))), d, to + c);
}

/// Panels as tiles read them: the matrix's own, or a unit's rows of a chunk, widened.
struct Panels {
  const float* first;
  std::int64_t block;
  std::int64_t pitch;   // floats from a panel to the next one
  std::int64_t column;  // of the first one
};

/// A unit's rows [k, k + count) of the panels from `column` on.
HWY_NOINLINE Panels widen_unit(const PackedMatrix& matrix, std::int64_t k, std::int64_t count,
                               std::int64_t column, std::int64_t columns, float* to) {
  const auto* elements = reinterpret_cast<const std::uint16_t*>(matrix.panels) + k * matrix.block;
  const std::int64_t block = block_of(matrix), pitch = kNarrowChunk * block;
  for (std::int64_t i = 0; i * block < columns; ++i) {
    const std::int64_t at = column + i * block;
    const std::uint16_t* from =
        elements + at / matrix.block * matrix.panel_elements + at % matrix.block;
    if (matrix.type == PanelType::kBfloat16)
      widen<hwy::bfloat16_t>(from, matrix.block, count, block, to + i * pitch);
    else
      widen<hwy::float16_t>(from, matrix.block, count, block, to + i * pitch);
  }
  return {to, block, pitch, column};
}

/// Which of the chunks of a product's depth it is.
struct Chunk {
  bool first, last;
};

/// A group's rows times the columns of a unit from `column` on, one chunk of the depth. `tile` has what
/// all tiles share.
HWY_INLINE void multiply_unit(const PanelProduct& p, const ProductPart& part, const Chunk& chunk,
                              const Panels& panels, NextUnit& next, Tile tile,
                              const WindowRows::Group& group, std::int64_t column) {
  const std::int64_t rows = group.count;
  const std::int64_t block = panels.block;
  std::int64_t steps = 0;
  for (std::size_t i = 0; i < tile.run_count; ++i) steps += tile.runs[i].count;
  const std::int64_t end = std::min(column + columns_of_unit(block), part.column + part.columns);
  // Where the last panel is alone it is a unit of its own.
  const std::size_t most = vectors_of(
      std::min(columns_of_unit(block), (end - column + block - 1) / block * block), rows);
  std::size_t vectors = most;
  const float* from = chunk.first ? p.finish.start : p.result;
  tile.from_pitch = chunk.first ? p.finish.start_pitch : p.result_pitch;
  for (std::int64_t at = column; at < end; at += static_cast<std::int64_t>(vectors * kLanes)) {
    vectors = vectors_left(most, end - at, block);
    tile.panel = panels.first + (at - panels.column) / block * panels.pitch + at % block;
    tile.from = from == nullptr ? nullptr : from + part.row * tile.from_pitch + at;
    tile.to = p.result + part.row * p.result_pitch + at;
    tile.bias = p.finish.bias == nullptr ? nullptr : p.finish.bias + at;
    switch (vectors) {
      case 4: multiply_rows<4>(tile, rows, end - at, steps, next); break;
      case 3: multiply_rows<3>(tile, rows, end - at, steps, next); break;
      case 2: multiply_rows<2>(tile, rows, end - at, steps, next); break;
      default: multiply_rows<1>(tile, rows, end - at, steps, next); break;
    }
  }
}

/// What all tiles of a part share.
HWY_INLINE Tile tile_of(const PanelProduct& p, const WindowRows& rows, const Run* runs) {
  Tile tile{};
  tile.src = p.src;
  tile.runs = runs;
  tile.offsets = rows.offsets();
  tile.numbers = rows.numbers();
  tile.block = block_of(p.matrix);
  tile.half = 2 * kLanes;
  tile.to_pitch = p.result_pitch;
  tile.clamped = p.finish.low > -std::numeric_limits<float>::infinity() ||
                 p.finish.high < std::numeric_limits<float>::infinity();
  return tile;
}

template <std::size_t kVectors>
HWY_INLINE void stream_columns(const Tile& tile, std::int64_t rows, std::int64_t columns) {
  const TileFunction multiply = rows == 1 && row_prefetch_pays()
                                    ? &multiply_tile<1, kVectors, true>
                                    : kTiles<kVectors>[static_cast<std::size_t>(rows - 1)];
  if (columns >= static_cast<std::int64_t>(kVectors * kLanes))
    multiply(tile);
  else
    multiply_narrow(multiply, tile, rows, columns);
}

/// Vectors of a streamed tile: with a panel's columns at once where there are registers for them.
HWY_INLINE std::size_t stream_vectors(std::int64_t block) {
  const auto vectors = static_cast<std::size_t>(block) / kLanes;
  if (vectors % 4 == 0) return 4;
  return vectors % 3 == 0 ? 3 : vectors % 2 == 0 ? 2 : 1;
}

/// Whether the part has so few rows that reading the panels takes longer than multiplying.
HWY_INLINE bool is_streamed(const PanelProduct& p, const WindowRows& rows) {
  if (p.matrix.type != PanelType::kFloat || p.windows.kernel != Windows::Pair{1, 1} ||
      rows.groups().size() != 1)
    return false;
  const WindowRows::Group& group = rows.groups().front();
  if (group.cover.empty()) return false;
  const auto count = static_cast<std::size_t>(group.count);
  switch (stream_vectors(p.matrix.block)) {
    case 4: return count <= kRowsOf<4>;
    case 3: return count <= kRowsOf<3>;
    case 2: return count <= kRowsOf<2>;
    default: return count <= kRowsOf<1>;
  }
}

/// Vectors of the panels of which one row takes several at once. Measured (docs/onednn.md, "Packed weights"): reading from
/// several places reaches more of the memory than from one. With AVX2 the sums of three fill the registers.
inline constexpr std::size_t kStreamedVectors = 4;
inline constexpr std::int64_t kMostStreams = kLanes >= 16 ? 4 : kLanes == 8 ? 3 : 1;

/// One row times the next of `panels` panels, `pitch` floats apart: as many as make all steps alike. Returns how many.
HWY_INLINE std::int64_t stream_panels(const Tile& tile, std::int64_t pitch, std::int64_t panels) {
  const std::int64_t steps = (panels + kMostStreams - 1) / kMostStreams;
  const std::int64_t streams = steps == 0 ? 0 : (panels + steps - 1) / steps;
  if constexpr (kMostStreams >= 4)
    if (streams == 4) return multiply_streams<4, kStreamedVectors>(tile, pitch), 4;
  switch (streams) {
    case 3: return multiply_streams<3, kStreamedVectors>(tile, pitch), 3;
    case 2: return multiply_streams<2, kStreamedVectors>(tile, pitch), 2;
    default: return 0;
  }
}

/// Panels in the order in which they are stored, each from end to end: what the hardware sees coming.
HWY_NOINLINE void stream_part(const PanelProduct& p, const ProductPart& part,
                              const WindowRows& rows) {
  const Run whole{0, 0, p.windows.depth()};
  Tile tile = tile_of(p, rows, &whole);
  tile.run_count = whole.count > 0 ? 1 : 0;
  tile.finish = &p.finish;
  tile.from_pitch = p.finish.start_pitch;
  const std::size_t vectors = stream_vectors(p.matrix.block);
  const auto step = static_cast<std::int64_t>(vectors * kLanes);
  const bool several =
      kMostStreams > 1 && part.rows == 1 && vectors == kStreamedVectors && step == p.matrix.block;
  for (std::int64_t i = 0; i < part.columns;) {
    const std::int64_t at = part.column + i;
    tile.panel = reinterpret_cast<const float*>(p.matrix.panels) +
                 at / p.matrix.block * p.matrix.panel_elements + at % p.matrix.block;
    tile.from =
        p.finish.start == nullptr ? nullptr : p.finish.start + part.row * tile.from_pitch + at;
    tile.to = p.result + part.row * p.result_pitch + at;
    tile.bias = p.finish.bias == nullptr ? nullptr : p.finish.bias + at;
    if (several) {
      const std::int64_t panels =
          stream_panels(tile, p.matrix.panel_elements, (part.columns - i) / step);
      i += panels * step;
      if (panels > 0) continue;
    }
    switch (vectors) {
      case 4: stream_columns<4>(tile, part.rows, part.columns - i); break;
      case 3: stream_columns<3>(tile, part.rows, part.columns - i); break;
      case 2: stream_columns<2>(tile, part.rows, part.columns - i); break;
      default: stream_columns<1>(tile, part.rows, part.columns - i); break;
    }
    i += step;
  }
}

/// What narrow panels become: of a unit's columns.
inline constexpr std::int64_t kWidenedColumns = kLanes >= 16 ? 64 : 4 * kLanes;

/// Rows of panels that all rows take before the next ones, of a depth. Measured with AVX2 on an Intel processor (docs/onednn.md, "Packed
/// weights"): a tile's columns of about so many stay in the first cache with its rows, and chunks of one size keep tiles long.
HWY_INLINE std::int64_t chunk_of(const PackedMatrix& matrix, std::int64_t depth) {
  constexpr std::int64_t kNearChunk = 432, kStep = 16;
  if (matrix.type != PanelType::kFloat) return kNarrowChunk;
  if (kLanes != 8 || !has_intel_cores()) return kChunk;
  const std::int64_t chunks = HWY_MAX((depth + kNearChunk / 2) / kNearChunk, std::int64_t{1});
  return HWY_MAX((depth + chunks * kStep - 1) / (chunks * kStep), std::int64_t{1}) * kStep;
}

/// What is multiplied of a product's depth: rows [depth, depth + count) of the panels, by those rows of a part that have them.
struct DepthRange {
  Windows windows;  // whose depth is count
  std::int64_t depth, count;
};

/// What follows the unit at rows [k, k + count) of the panels from `column` on: the next columns, the part's first ones in the next
/// chunk, or the first ones of the next part, whose columns mostly follow.
HWY_INLINE NextUnit next_unit(const PanelProduct& p, const ProductPart& part, std::int64_t k,
                              std::int64_t count, std::int64_t column) {
  NextUnit next;
  if (!panel_prefetch_pays()) return next;
  constexpr std::int64_t kElement = sizeof(float);
  constexpr auto kTileRows = static_cast<std::int64_t>(kMostTileRows);
  const std::int64_t block = p.matrix.block, depth = p.windows.depth(), steps = count;
  column += columns_of_unit(block);
  if (column >= part.column + part.columns) {
    k = k + count < depth ? k + count : 0;
    count = HWY_MIN(count, depth - k);
    column = k > 0 ? part.column : part.column + part.columns;
  }
  if (column >= p.matrix.columns || part.rows == 0 || steps <= 0) return next;
  const std::byte* panel =
      p.matrix.panels + (column / block * p.matrix.panel_elements + k * block) * kElement;
  const bool two = columns_of_unit(block) > block && column + block < p.matrix.columns;
  const std::int64_t places = Ahead::kPlaces / (two ? 2 : 1);  // of a panel
  next.ahead.lines = count * block * kElement / kLineBytes / places;
  for (std::int64_t i = 0; i < Ahead::kPlaces; ++i)
    next.ahead.places[static_cast<std::size_t>(i)] =
        panel + i / places * p.matrix.panel_elements * kElement +
        i % places * next.ahead.lines * kLineBytes;
  const std::int64_t tiles = (part.rows + kTileRows - 1) / kTileRows;
  const std::int64_t turns = HWY_MAX(tiles * (steps / kStepsOfTurn), std::int64_t{1});
  next.ahead.lines_of_turn = (next.ahead.lines + turns - 1) / turns;
  return next;
}

/// Chunk by chunk of a range. A panel's chunk stays in the nearest cache that holds it while all groups of rows take it.
HWY_NOINLINE void multiply_range(const PanelProduct& p, const ProductPart& part,
                                 const DepthRange& range, const WindowRows& rows) {
  Runs runs;
  const std::int64_t block = block_of(p.matrix), unit = columns_of_unit(block);
  const std::int64_t depth = p.windows.depth(), chunk_depth = chunk_of(p.matrix, range.count);
  const bool narrow = p.matrix.type != PanelType::kFloat;
  HWY_ALIGN float widened[kNarrowChunk * kWidenedColumns];
  Panels panels{narrow ? widened : reinterpret_cast<const float*>(p.matrix.panels), block,
                narrow ? kNarrowChunk * block : p.matrix.panel_elements, 0};
  Tile tile = tile_of(p, rows, runs.data());
  if (block == static_cast<std::int64_t>(2 * kLanes)) tile.half = panels.pitch;
  for (std::int64_t k = 0; k == 0 || k < range.count; k += chunk_depth) {
    const std::int64_t at = range.depth + k, count = HWY_MIN(chunk_depth, range.count - k);
    const Chunk chunk{at == 0, at + count >= depth};
    tile.finish = chunk.last ? &p.finish : nullptr;
    tile.first = narrow ? k : -range.depth;
    for (std::int64_t i = 0; i < part.columns; i += unit) {
      const std::int64_t column = part.column + i;
      if (narrow)
        panels = widen_unit(p.matrix, at, count, column, HWY_MIN(unit, part.columns - i), widened);
      NextUnit next = narrow ? NextUnit{} : next_unit(p, part, at, count, column);
      for (const WindowRows::Group& group : rows.groups()) {
        tile.offsets = rows.offsets() + group.first;
        tile.numbers = rows.numbers() + group.first;
        if (i == 0 || rows.groups().size() > 1)
          tile.run_count = find_runs(range.windows, group.cover, k, count, runs);
        if (tile.run_count > 0 || chunk.first || chunk.last)
          multiply_unit(p, part, chunk, panels, next, tile, group, column);
      }
    }
  }
}

/// Whether each position of the kernel is multiplied on its own, by all rows that have it: where so many of the rows are at edges that
/// those with the same positions are too few for whole tiles. Measured: docs/onednn.md, "Packed weights".
HWY_INLINE bool goes_by_positions(const PanelProduct& p) {
  constexpr std::int64_t kLeastChannels = 256, kMostPixels = 100;
  const Windows& w = p.windows;
  return w.kernel != Windows::Pair{1, 1} && w.pad != Windows::Pair{0, 0} &&
         w.channels >= kLeastChannels && w.result[0] * w.result[1] <= kMostPixels;
}

/// Only one position of the kernel.
HWY_INLINE DepthRange position_range(const Windows& windows, std::int64_t line,
                                     std::int64_t column) {
  DepthRange range{windows, (line * windows.kernel[1] + column) * windows.channels,
                   windows.channels};
  range.windows.kernel = {1, 1};
  range.windows.pad = {windows.pad[0] - line * windows.dilation[0],
                       windows.pad[1] - column * windows.dilation[1]};
  return range;
}

HWY_NOINLINE void multiply_part(const PanelProduct& p, const ProductPart& part) {
  if (goes_by_positions(p)) {
    for (std::int64_t line = 0; line < p.windows.kernel[0]; ++line)
      for (std::int64_t column = 0; column < p.windows.kernel[1]; ++column) {
        const DepthRange range = position_range(p.windows, line, column);
        multiply_range(p, part, range, {range.windows, part.row, part.rows});
      }
    return;
  }
  const WindowRows rows(p.windows, part.row, part.rows);
  if (is_streamed(p, rows)) return stream_part(p, part, rows);
  multiply_range(p, part, {p.windows, 0, p.windows.depth()}, rows);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

bool reads_ahead() { return panel_prefetch_pays(); }

void multiply_panels(const PanelProduct& product, const ProductPart& part) {
  CTXGEN_DISPATCH(multiply_part(product, part));
}

}  // namespace ctxgen::kernels
#endif
