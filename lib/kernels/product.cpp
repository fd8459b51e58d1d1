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
  Ahead ahead;                    // all its lines; none: nothing follows
  std::int64_t lines_of_row = 0;  // of each place, for which a row of a tile asks
  std::int64_t lines_of_piece = 0;

  static const NextUnit& none() {
    static constexpr NextUnit kNone;
    return kNone;
  }

  /// What the tile of the part's rows [row, row + count) asks for.
  [[nodiscard]] Ahead share(std::int64_t row, std::int64_t count) const {
    const std::int64_t first = row * lines_of_row;
    if (first >= ahead.lines) return {};
    Ahead part = ahead;
    for (const std::byte*& place : part.places) place += first * kLineBytes;
    part.lines = std::min(count * lines_of_row, ahead.lines - first);
    part.lines_of_piece = count * lines_of_piece;
    return part;
  }
};

/// The rows of a group, from number `row` of the part on, times kVectors vectors of columns, of which the result has
/// `columns`, in tiles of about as many rows each.
template <std::size_t kVectors>
HWY_INLINE void multiply_rows(Tile tile, std::int64_t row, std::int64_t rows, std::int64_t columns,
                              const NextUnit& next) {
  constexpr auto kMost = static_cast<std::int64_t>(kRowsOf<kVectors>);
  const bool whole = columns >= static_cast<std::int64_t>(kVectors * kLanes);
  for (std::int64_t tiles = (rows + kMost - 1) / kMost; tiles > 0; --tiles) {
    const std::int64_t count = (rows + tiles - 1) / tiles;
    const TileFunction multiply = kTiles<kVectors>[static_cast<std::size_t>(count - 1)];
    tile.ahead = next.share(row, count);
    if (whole)
      multiply(tile);
    else
      multiply_narrow(multiply, tile, count, columns);
    tile.offsets += count;
    tile.numbers += count;
    row += count;
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
                              const Panels& panels, const NextUnit& next, Tile tile,
                              const WindowRows::Group& group, std::int64_t column) {
  const std::int64_t rows = group.count;
  const std::int64_t block = panels.block;
  const std::int64_t end = std::min(column + columns_of_unit(block), part.column + part.columns);
  // Where the last panel is alone it is a unit of its own.
  const std::size_t most = vectors_of(
      std::min(columns_of_unit(block), (end - column + block - 1) / block * block), rows);
  std::size_t vectors = most;
  const float* from = chunk.first ? p.finish.start : p.result;
  tile.from_pitch = chunk.first ? p.finish.start_pitch : p.result_pitch;
  for (std::int64_t at = column; at < end; at += static_cast<std::int64_t>(vectors * kLanes)) {
    vectors = vectors_left(most, end - at, block);
    const NextUnit& follows = at == column ? next : NextUnit::none();
    tile.panel = panels.first + (at - panels.column) / block * panels.pitch + at % block;
    tile.from = from == nullptr ? nullptr : from + part.row * tile.from_pitch + at;
    tile.to = p.result + part.row * p.result_pitch + at;
    tile.bias = p.finish.bias == nullptr ? nullptr : p.finish.bias + at;
    switch (vectors) {
      case 4: multiply_rows<4>(tile, group.first, rows, end - at, follows); break;
      case 3: multiply_rows<3>(tile, group.first, rows, end - at, follows); break;
      case 2: multiply_rows<2>(tile, group.first, rows, end - at, follows); break;
      default: multiply_rows<1>(tile, group.first, rows, end - at, follows); break;
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
  const TileFunction multiply = rows == 1 && prefetch_pays()
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

/// Rows of f32 panels that all rows take before the next ones. Measured with AVX2 on an Intel processor (docs/onednn.md, "Packed
/// weights"): a tile's columns of so many stay in the first cache with its rows.
HWY_INLINE std::int64_t float_chunk() {
  constexpr std::int64_t kNearChunk = 384;
  return kLanes == 8 && has_intel_cores() ? kNearChunk : kChunk;
}

/// What follows the unit at row k of the panels from `column` on: the next columns, the part's first ones in the next chunk, or
/// the first ones of the next part, whose columns mostly follow.
HWY_INLINE NextUnit next_unit(const PanelProduct& p, const ProductPart& part, std::int64_t chunk,
                              std::int64_t k, std::int64_t column) {
  NextUnit next;
  if (!prefetch_pays()) return next;
  constexpr std::int64_t kElement = sizeof(float);
  const std::int64_t block = p.matrix.block, depth = p.windows.depth();
  const std::int64_t steps = std::min(chunk, depth - k);
  column += columns_of_unit(block);
  if (column >= part.column + part.columns) {
    k = k + chunk < depth ? k + chunk : 0;
    column = k > 0 ? part.column : part.column + part.columns;
  }
  if (column >= p.matrix.columns || part.rows == 0 || steps <= 0) return next;
  const std::byte* panel =
      p.matrix.panels + (column / block * p.matrix.panel_elements + k * block) * kElement;
  const bool two = columns_of_unit(block) > block && column + block < p.matrix.columns;
  const std::int64_t places = Ahead::kPlaces / (two ? 2 : 1);  // of a panel
  next.ahead.lines = std::min(chunk, depth - k) * block * kElement / kLineBytes / places;
  for (std::int64_t i = 0; i < Ahead::kPlaces; ++i)
    next.ahead.places[static_cast<std::size_t>(i)] =
        panel + i / places * p.matrix.panel_elements * kElement +
        i % places * next.ahead.lines * kLineBytes;
  next.lines_of_row = (next.ahead.lines + part.rows - 1) / part.rows;
  next.lines_of_piece = (next.lines_of_row * kStepsOfPiece + steps - 1) / steps;
  return next;
}

/// A panel's chunk stays in the nearest cache that holds it while all groups of rows take it.
HWY_NOINLINE void multiply_part(const PanelProduct& p, const ProductPart& part) {
  const WindowRows rows(p.windows, part.row, part.rows);
  if (is_streamed(p, rows)) return stream_part(p, part, rows);
  Runs runs;
  const std::int64_t depth = p.windows.depth(), block = block_of(p.matrix);
  const std::int64_t unit = columns_of_unit(block);
  const bool narrow = p.matrix.type != PanelType::kFloat;
  const std::int64_t chunk_depth = narrow ? kNarrowChunk : float_chunk();
  HWY_ALIGN float widened[kNarrowChunk * kWidenedColumns];
  Panels panels{narrow ? widened : reinterpret_cast<const float*>(p.matrix.panels), block,
                narrow ? kNarrowChunk * block : p.matrix.panel_elements, 0};
  Tile tile = tile_of(p, rows, runs.data());
  if (block == static_cast<std::int64_t>(2 * kLanes)) tile.half = panels.pitch;
  for (std::int64_t k = 0; k == 0 || k < depth; k += chunk_depth) {
    const Chunk chunk{k == 0, k + chunk_depth >= depth};
    tile.finish = chunk.last ? &p.finish : nullptr;
    tile.first = narrow ? k : 0;
    for (std::int64_t i = 0; i < part.columns; i += unit) {
      if (narrow)
        panels = widen_unit(p.matrix, k, std::min(chunk_depth, depth - k), part.column + i,
                            std::min(unit, part.columns - i), widened);
      const NextUnit next =
          narrow ? NextUnit{} : next_unit(p, part, chunk_depth, k, part.column + i);
      for (const WindowRows::Group& group : rows.groups()) {
        tile.offsets = rows.offsets() + group.first;
        tile.numbers = rows.numbers() + group.first;
        if (i == 0 || rows.groups().size() > 1)
          tile.run_count = find_runs(p.windows, group.cover, k, chunk_depth, runs);
        if (tile.run_count > 0 || chunk.first || chunk.last)
          multiply_unit(p, part, chunk, panels, next, tile, group, part.column + i);
      }
    }
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

bool reads_ahead() { return prefetch_pays(); }

void multiply_panels(const PanelProduct& product, const ProductPart& part) {
  CTXGEN_DISPATCH(multiply_part(product, part));
}

}  // namespace ctxgen::kernels
#endif
