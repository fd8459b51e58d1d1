#pragma once

#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// Writes windows [row, row + rows) of an image of bytes, in the order of the results, as rows of
/// windows.depth() bytes: the kernel's positions in order, all channels of each. What is outside of the
/// image is `fill`. `src` has windows.pitch bytes per pixel. Rows begin `stride` bytes after one another,
/// at least depth(); what follows their elements is 0.
void gather_windows(const Windows& windows, const std::uint8_t* src, std::uint8_t fill,
                    std::int64_t row, std::int64_t rows, std::int64_t stride, std::uint8_t* to);

/// Columns of an image, and of its padding, that the windows of a line of results see.
[[nodiscard]] inline std::int64_t seen_columns(const Windows& windows) {
  return (windows.result[1] - 1) * windows.stride[1] +
         (windows.kernel[1] - 1) * windows.dilation[1] + 1;
}
/// Lines of it that those of `lines` lines of results see.
[[nodiscard]] inline std::int64_t seen_lines(const Windows& windows, std::int64_t lines) {
  return (lines - 1) * windows.stride[0] + (windows.kernel[0] - 1) * windows.dilation[0] + 1;
}

/// Writes what the windows of lines [line, line + lines) of the results of `image` see, [seen_lines(), seen_columns(), channels];
/// what is outside of the image is `fill`. `src` has windows.pitch bytes per pixel, as many as channels.
void pad_lines(const Windows& windows, const std::uint8_t* src, std::uint8_t fill,
               std::int64_t image, std::int64_t line, std::int64_t lines, std::uint8_t* to);

}  // namespace ctxgen::kernels
