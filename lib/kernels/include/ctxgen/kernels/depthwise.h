#pragma once

#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

/// A convolution whose results each see one channel: images in channels-last order, a weight per channel and
/// position of the kernel.
struct Depthwise {
  Windows windows;  // of all channels
  const float* src = nullptr;
  /// [kernel[0], kernel[1], weight_pitch]. oneDNN calls this decbA8a and decbA16a, where weight_pitch is the number
  /// of channels up to a multiple of 8 and 16.
  const float* weights = nullptr;
  std::int64_t weight_pitch = 0;
  Finish finish;
  float* result = nullptr;        // [images x lines x columns, channels]
  std::int64_t result_pitch = 0;  // floats from a pixel to the next one
};

/// Lines of the results of all images, one image's after the other's, and channels of them.
struct DepthwisePart {
  std::int64_t line = 0, lines = 0;
  std::int64_t channel = 0, channels = 0;
};

/// How a result is divided into parts that fit a cache, for any number of threads.
struct DepthwiseParts {
  std::int64_t lines = 0, channels = 0;            // of the result
  std::int64_t part_lines = 0, part_channels = 0;  // of each part but the last ones
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] DepthwisePart part(std::int64_t index) const;
};
/// As large parts as a cache likes, but `wanted` of them where there is work for so many.
[[nodiscard]] DepthwiseParts depthwise_parts(const Windows& windows, std::int64_t wanted);

/// Computes a part. Each element is one chain of fused multiply-adds in the order of the kernel's positions that lie
/// in the image (with instruction sets that have them), so it depends neither on the parts nor on the instruction
/// set. No memory outside of the images, weights and the part is read or written. Source and result do not overlap.
/// All sizes have been checked: products of dims fit 64 bits, every pitch covers its row.
void convolve_depthwise(const Depthwise& conv, const DepthwisePart& part);

}  // namespace ctxgen::kernels
