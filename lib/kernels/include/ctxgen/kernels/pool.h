#pragma once

#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// A pool over images in channels-last order.
struct Pool {
  enum class Mode : std::uint8_t { kMaximum, kAverage };
  Windows windows;
  Mode mode = Mode::kMaximum;
  /// An average counts the positions of a window before this line and column: the image's size, or beyond it those of padding,
  /// which counts before the image, too, then.
  Windows::Pair counted{0, 0};
  bool counts_padding = false;
  const float* src = nullptr;  // windows.pitch floats from a pixel to the next one
  float* result = nullptr;     // [images x lines x columns, channels]
};

/// Computes lines [line, line + lines) of the results of all images, one image's after the other's, windows.channels of each
/// pixel.
///
/// A maximum with a NaN among its elements is NaN; of a window that holds nothing of the image it is -infinity. An average
/// is the sum of each column of its window from top to bottom, these sums from left to right, divided by the number of
/// positions; 0 where that is 0. So a result depends neither on the parts nor on the instruction set.
/// No memory outside of the images and the lines is read or written. All sizes have been checked: products of dims fit 64 bits.
void pool_lines(const Pool& pool, std::int64_t line, std::int64_t lines);

}  // namespace ctxgen::kernels
