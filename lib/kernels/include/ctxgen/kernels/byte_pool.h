#pragma once

#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// The largest bytes of windows over images in channels-last order.
struct BytePool {
  Windows windows;         // pitch is channels
  bool is_signed = false;  // s8, not u8
  const std::uint8_t* src = nullptr;
  std::uint8_t* result = nullptr;  // [images x lines x columns, channels]
};

/// Computes lines [line, line + lines) of the results of all images, one image's after the other's. Of a window that holds nothing
/// of the image the result is the least byte. No memory outside of the images and the lines is read or written. All sizes have been
/// checked: products of dims fit 64 bits.
void pool_byte_lines(const BytePool& pool, std::int64_t line, std::int64_t lines);

}  // namespace ctxgen::kernels
