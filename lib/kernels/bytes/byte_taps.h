#pragma once

#include <cstdint>

#include "ctxgen/kernels/byte_depthwise.h"

namespace ctxgen::kernels {

/// How depthwise convolutions are computed by products of four bytes each: four lines of the kernel, at a channel and a column, are a
/// word. The numbers of what a run prepares; bytes, if not said otherwise.
struct TapLayout {
  explicit TapLayout(const Windows& w)
      : channels((w.channels + kTapChannels - 1) / kTapChannels * kTapChannels),
        groups((w.kernel[0] + 3) / 4),
        columns((w.result[1] - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1),
        word_row(channels * 4),
        weight_bytes(groups * w.kernel[1] * word_row),
        shared_bytes(weight_bytes + kNumbers * word_row + 2 * channels) {}

  static constexpr std::int64_t kTapChannels = 16;  // that rows are filled up to
  static constexpr std::int64_t kNumbers = 5;       // per channel: TapNumbers

  std::int64_t channels;  // elements
  std::int64_t groups;    // of four lines of the kernel
  std::int64_t columns;   // elements: of the source that a line of results sees, and of its padding
  std::int64_t word_row;  // the words of a column
  std::int64_t weight_bytes;  // [groups, kernel[1]] rows of words
  std::int64_t shared_bytes;  // weights, numbers, a pixel of padding, one of zeros
};

/// Numbers per channel, in the order of the words.
struct TapNumbers {
  std::int32_t* first;  // what sums begin with: what the zero point takes from them
  float *factor, *addend, *scale, *bias;  // bias: null where there is none
};

/// What a run prepares once.
struct TapRun {
  const ByteDepthwise* conv = nullptr;
  const std::byte* weights = nullptr;
  TapNumbers numbers = {};
  const std::uint8_t* padding = nullptr;  // a pixel of it, as the source has it
  bool usable = false;                    // factors decide bytes
  std::int32_t margin = 0;                // of ByteScaling
  bool bounded = false;  // no sum passes an integer in units of bytes (byte_store-inl.h)
};

}  // namespace ctxgen::kernels
