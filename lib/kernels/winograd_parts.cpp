#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/winograd.h"

#include "stretches.h"
#include "winograd_layout.h"

namespace ctxgen::kernels {

namespace {

constexpr std::int64_t kLine = 16;  // floats of a line of a cache

/// A plane's floats so that the same places of 16 planes are in different sets of the first cache.
std::int64_t apart(std::int64_t floats) { return (divide_up(floats, kLine) | 1) * kLine; }

/// Whole panels, and whole tiles of products with AVX-512.
std::int64_t unit_columns(std::int64_t block) {
  const bool wide = simd_level() >= SimdLevel::kAvx512;
  return wide && block != 48 ? 64 : block;
}

}  // namespace

std::optional<WinogradLayout> winograd_layout(const Windows& windows, const PackedMatrix& matrix) {
  constexpr std::int64_t kMostChannels = std::int64_t{1} << 24;
  // Measured on a Xeon with 2 MiB of second cache per core: a smaller block of the source has its weights transformed more
  // often; more channels at once do not stay in the cache with the rest. Sums in whole tiles of 6 rows.
  constexpr std::int64_t kBlockFloats = std::int64_t{256} << 10;
  constexpr std::int64_t kMostDepth = 128, kMostSums = 54, kLeastTiles = 12;
  const std::int64_t channels = windows.channels;
  if (channels > kMostChannels) return std::nullopt;
  WinogradLayout layout;
  layout.lines = windows.images * ((windows.result[0] + 1) / 2);
  layout.line_tiles = (windows.result[1] + 1) / 2;
  layout.unit = unit_columns(matrix.block);
  layout.depth = std::min(channels, kMostDepth);
  layout.pitch = divide_up(std::max<std::int64_t>(channels, 1), kLine) * kLine;
  layout.block_tiles = std::max(kBlockFloats / kPlanes / layout.pitch, kLeastTiles);
  if (layout.lines * layout.line_tiles < layout.block_tiles)
    layout.block_tiles = layout.lines * layout.line_tiles;
  layout.sum_tiles =
      channels > kMostDepth ? layout.block_tiles : std::min(layout.block_tiles, kMostSums);
  layout.source_plane = apart(layout.block_tiles * layout.pitch);
  layout.weight_plane = apart(layout.depth * layout.unit);
  layout.sum_plane = apart(layout.sum_tiles * layout.unit);
  return layout;
}

std::optional<std::uint64_t> winograd_scratch_bytes(const Windows& windows,
                                                    const PackedMatrix& matrix) {
  const auto layout = winograd_layout(windows, matrix);
  if (!layout) return std::nullopt;
  return static_cast<std::uint64_t>(layout->floats()) * sizeof(float);
}

std::int64_t WinogradParts::count() const {
  if (lines <= 0 || columns <= 0 || windows.result[1] <= 0) return 0;
  return divide_up(lines, part_lines) * divide_up(columns, part_columns);
}

ProductPart WinogradParts::part(std::int64_t index) const {
  const std::int64_t across = divide_up(columns, part_columns);
  const std::int64_t line = index / across * part_lines, column = index % across * part_columns;
  const std::int64_t row = first_pixel_line(windows, line) * windows.result[1];
  const std::int64_t end =
      first_pixel_line(windows, std::min(line + part_lines, lines)) * windows.result[1];
  return {row, end - row, column, std::min(part_columns, columns - column)};
}

namespace {

/// What a part takes, in multiplications of vectors: the products, then the source's sums, the weights' and those of products.
double time_of(double tiles, double channels, double columns) {
  constexpr double kSource = 80, kWeights = 50, kSums = 60;
  return kPlanes * tiles * channels * columns + kSource * tiles * channels +
         kWeights * channels * columns + kSums * tiles * columns;
}

}  // namespace

WinogradParts winograd_parts(const Windows& windows, const PackedMatrix& matrix, int threads) {
  const auto layout = winograd_layout(windows, matrix).value_or(WinogradLayout{});
  WinogradParts best{.windows = windows, .lines = layout.lines, .columns = matrix.columns};
  const std::int64_t team = std::max(threads, 1);
  const std::int64_t units = divide_up(matrix.columns, std::max<std::int64_t>(layout.unit, 1));
  double least = std::numeric_limits<double>::infinity();
  // Parts of as many lines as stay in the second cache, then of fewer.
  const std::int64_t fewest = divide_up(
      layout.lines,
      std::max<std::int64_t>(layout.block_tiles / std::max<std::int64_t>(layout.line_tiles, 1), 1));
  for (std::int64_t down = std::max<std::int64_t>(fewest, 1); down <= fewest + team; ++down)
    for (std::int64_t across = 1; across <= std::min(units, team); ++across) {
      WinogradParts parts = best;
      parts.part_lines = divide_up(layout.lines, down);
      parts.part_columns = divide_up(units, across) * layout.unit;
      if (parts.part_lines == 0) continue;
      const double time =
          static_cast<double>(divide_up(parts.count(), team)) *
          time_of(static_cast<double>(parts.part_lines * layout.line_tiles),
                  static_cast<double>(windows.channels),
                  static_cast<double>(std::min(parts.part_columns, matrix.columns)));
      if (time >= least) continue;
      least = time;
      best = parts;
    }
  return best;
}

}  // namespace ctxgen::kernels
