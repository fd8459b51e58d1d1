#pragma once

#include <cstdint>
#include <optional>

#include "ctxgen/kernels/product.h"

// Convolutions of 3 x 3 positions as Winograd has them: A. Lavin, S. Gray, "Fast Algorithms for Convolutional Neural
// Networks", arXiv 1509.09308, F(2x2, 3x3). A tile of 2 x 2 pixels takes 16 products per channel and column instead of
// 36; sums of 4 x 4 pixels of the source, and of the weights, go before them, sums of the products after them.
namespace ctxgen::kernels {

/// Whether the windows are such: 3 x 3 positions that touch, of neighbouring pixels.
[[nodiscard]] constexpr bool has_winograd(const Windows& windows) {
  constexpr Windows::Pair kOne{1, 1};
  return windows.kernel == Windows::Pair{3, 3} && windows.stride == kOne &&
         windows.dilation == kOne;
}

/// How a result is divided: whole lines of tiles, which are two lines of an image or the last one of odd height.
struct WinogradParts {
  Windows windows;
  std::int64_t lines = 0, columns = 0;            // of the result; lines of tiles of all images
  std::int64_t part_lines = 0, part_columns = 0;  // of each part but the last ones
  int threads = 1;                                // that compute parts at a time
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] ProductPart part(std::int64_t index) const;
};
/// Parts that `threads` threads finish soonest. Requires  has_winograd(windows).
[[nodiscard]] WinogradParts winograd_parts(const Windows& windows, const PackedMatrix& matrix,
                                           int threads);

/// Bytes of the memory in which a part is computed: at most 2 MiB, unless there are more than 1,000 channels, and with more than two
/// threads less. Nothing for more than 2^24 channels.
[[nodiscard]] std::optional<std::uint64_t> winograd_scratch_bytes(const WinogradParts& parts,
                                                                  const PackedMatrix& matrix);

/// multiply_panels() of part `index` of winograd_parts(), or of parts of other lines and units of columns. `scratch`:
/// winograd_scratch_bytes() of these parts at a multiple of 64, which no other call uses at the same time.
///
/// Each element is the same by any parts, and where it is finite and there are fused multiply-adds, with any instruction set.
/// Its error goes with the sum of |source| x |weights| over the 4 x 4 pixels that its tile reads, not over its own
/// window. Where that gives an element of a tile that is not finite, by a NaN or an infinity of source or
/// weights or by sums that overflow, multiply_panels() computes the tile: they reach only the windows that have them.
/// Requires  has_winograd(product.windows), f32 panels.
void multiply_winograd(const PanelProduct& product, const WinogradParts& parts, std::int64_t index,
                       float* scratch);

}  // namespace ctxgen::kernels
