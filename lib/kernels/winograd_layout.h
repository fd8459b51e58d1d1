#pragma once

#include <cstdint>
#include <optional>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// Products per channel and column of a tile: planes of transformed source, weights and sums.
inline constexpr std::int64_t kPlanes = 16;

/// How multiply_winograd() works through a part, in memory that stays in the second cache. Sizes in floats.
struct WinogradLayout {
  std::int64_t line_tiles = 0;  // of a line
  std::int64_t unit =
      0;  // columns whose weights are transformed at once, a multiple of the panels' block
  std::int64_t depth = 0;  // channels of them at most
  /// The source is transformed for so many channels at once, not for all: for parts of one unit, which read it once.
  bool source_in_depths = false;
  std::int64_t block_tiles = 0;  // tiles whose source is transformed at once at most
  std::int64_t sum_tiles = 0;    // tiles of these that are multiplied at once at most
  std::int64_t pitch = 0;        // from a tile's transformed source to the next tile's
  std::int64_t source_plane = 0, weight_plane = 0, sum_plane = 0;
  /// All planes and a row of zeros.
  [[nodiscard]] std::int64_t floats() const {
    return kPlanes * (source_plane + weight_plane + sum_plane) + pitch;
  }
};

/// A part: lines of tiles, and columns.
struct WinogradSize {
  std::int64_t lines = 0, columns = 0;
  int threads = 1;  // that compute such parts at a time
};

/// Nothing for more than 2^24 channels. No smaller for a larger part. Requires  has_winograd(windows).
[[nodiscard]] std::optional<WinogradLayout> winograd_layout(const Windows& windows,
                                                            const PackedMatrix& matrix,
                                                            const WinogradSize& size);

/// The first line of the result's pixels, of all images', that a line of tiles has; that of the first line after the last
/// one's is the number of lines.
[[nodiscard]] constexpr std::int64_t first_pixel_line(const Windows& windows, std::int64_t line) {
  const std::int64_t of_image = (windows.result[0] + 1) / 2;
  return line / of_image * windows.result[0] + line % of_image * 2;
}
/// The line of tiles of such a line of pixels, which is given by its first row of the result.
[[nodiscard]] constexpr std::int64_t tile_line(const Windows& windows, std::int64_t row) {
  const std::int64_t line = row / windows.result[1], of_image = (windows.result[0] + 1) / 2;
  return line / windows.result[0] * of_image + (line % windows.result[0] + 1) / 2;
}

}  // namespace ctxgen::kernels
