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

namespace {

// Measured on a Xeon with 2 MiB of second cache per core: a smaller block of the source has its weights transformed more often (of 64
// tiles they take a twentieth of the time, of 32 a tenth); more channels at once do not stay in the cache with the rest. Sums in
// whole tiles of 6 rows. With many threads blocks like those of two would take many times the memory.
constexpr int kFewThreads = 2, kSomeThreads = 4;

std::int64_t most_depth(int threads) { return threads <= kSomeThreads ? 128 : 32; }

std::int64_t most_sums(int threads) { return threads <= kFewThreads ? 54 : 24; }

std::int64_t most_tiles(int threads, std::int64_t pitch) {
  constexpr std::int64_t kBlockFloats = std::int64_t{256} << 10;
  constexpr std::int64_t kLeast = 12, kOfSomeThreads = 64, kOfManyThreads = 32;
  const std::int64_t tiles = std::max(kBlockFloats / kPlanes / pitch, kLeast);
  if (threads <= kFewThreads) return tiles;
  return std::min(tiles, threads <= kSomeThreads ? kOfSomeThreads : kOfManyThreads);
}

}  // namespace

std::optional<WinogradLayout> winograd_layout(const Windows& windows, const PackedMatrix& matrix,
                                              const WinogradSize& size) {
  constexpr std::int64_t kMostChannels = std::int64_t{1} << 24;
  const std::int64_t channels = windows.channels;
  if (channels > kMostChannels) return std::nullopt;
  WinogradLayout layout;
  const std::int64_t panels = divide_up(std::max<std::int64_t>(matrix.columns, 1), matrix.block);
  layout.line_tiles = (windows.result[1] + 1) / 2;
  layout.unit = std::min(unit_columns(matrix.block), panels * matrix.block);
  layout.depth = std::min(channels, most_depth(size.threads));
  layout.source_in_depths = layout.depth < channels && size.columns <= layout.unit;
  const std::int64_t at_once = layout.source_in_depths ? layout.depth : channels;
  layout.pitch = divide_up(std::max<std::int64_t>(at_once, 1), kLine) * kLine;
  layout.block_tiles =
      std::min(most_tiles(size.threads, layout.pitch), size.lines * layout.line_tiles);
  layout.sum_tiles = layout.depth < channels
                         ? layout.block_tiles
                         : std::min(layout.block_tiles, most_sums(size.threads));
  layout.source_plane = apart(layout.block_tiles * layout.pitch);
  layout.weight_plane = apart(layout.depth * layout.unit);
  layout.sum_plane = apart(layout.sum_tiles * layout.unit);
  return layout;
}

std::optional<std::uint64_t> winograd_scratch_bytes(const WinogradParts& parts,
                                                    const PackedMatrix& matrix) {
  std::uint64_t most = 0;
  // The last parts may be of one unit where the others are not.
  for (const std::int64_t columns : {parts.part_columns, std::int64_t{1}}) {
    const WinogradSize size{std::min(parts.part_lines, parts.lines), columns, parts.threads};
    const auto layout = winograd_layout(parts.windows, matrix, size);
    if (!layout) return std::nullopt;
    most = std::max(most, static_cast<std::uint64_t>(layout->floats()) * sizeof(float));
  }
  return most;
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
  const std::int64_t lines = windows.images * ((windows.result[0] + 1) / 2);
  const auto layout =
      winograd_layout(windows, matrix, {lines, matrix.columns, threads}).value_or(WinogradLayout{});
  WinogradParts best{
      .windows = windows, .lines = lines, .columns = matrix.columns, .threads = threads};
  const std::int64_t team = std::max(threads, 1);
  const std::int64_t units = divide_up(matrix.columns, std::max<std::int64_t>(layout.unit, 1));
  double least = std::numeric_limits<double>::infinity();
  // Parts of as many lines as stay in the second cache, then of fewer.
  const std::int64_t fewest = divide_up(
      lines,
      std::max<std::int64_t>(layout.block_tiles / std::max<std::int64_t>(layout.line_tiles, 1), 1));
  for (std::int64_t down = std::max<std::int64_t>(fewest, 1); down <= fewest + team; ++down)
    for (std::int64_t across = 1; across <= std::min(units, team); ++across) {
      WinogradParts parts = best;
      parts.part_lines = divide_up(lines, down);
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
