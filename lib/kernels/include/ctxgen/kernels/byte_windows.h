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

}  // namespace ctxgen::kernels
