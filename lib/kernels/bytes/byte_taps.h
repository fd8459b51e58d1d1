#pragma once

#include <cstdint>

#include "ctxgen/kernels/byte_depthwise.h"
#include "ctxgen/kernels/byte_windows.h"

namespace ctxgen::kernels {

/// How depthwise convolutions are computed by products of four bytes each: four lines of the kernel, at a channel and a column, are a
/// word. The numbers of what a run prepares; bytes, if not said otherwise.
struct TapLayout {
  explicit TapLayout(const Windows& w)
      : channels((w.channels + kTapChannels - 1) / kTapChannels * kTapChannels),
        groups((w.kernel[0] + 3) / 4),
        columns(seen_columns(w)),
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

/// Numbers per channel, in the order in which a kernel has them.
struct TapNumbers {
  std::int32_t* first = nullptr;  // what sums begin with: what the zero point takes from them
  float *factor = nullptr, *addend = nullptr, *scale = nullptr;
  float* bias = nullptr;    // null where there is none
  bool usable = false;      // factors decide bytes
  std::int32_t margin = 0;  // of ByteScaling
  bool bounded = false;     // no sum passes an integer in units of bytes (byte_store-inl.h)
};

/// Where they lie: TapLayout::kNumbers rows of `pitch` numbers from `memory` on.
inline TapNumbers tap_numbers(float* memory, std::int64_t pitch, bool has_bias) {
  return {.first = reinterpret_cast<std::int32_t*>(memory),
          .factor = memory + pitch,
          .addend = memory + 2 * pitch,
          .scale = memory + 3 * pitch,
          .bias = has_bias ? memory + 4 * pitch : nullptr};
}

/// What a run prepares once.
struct TapRun {
  const ByteDepthwise* conv = nullptr;
  const std::byte* weights = nullptr;
  TapNumbers numbers = {};
  const std::uint8_t* padding = nullptr;  // a pixel of it, as the source has it
};

/// The same in f32.
struct ColumnRun {
  const ByteDepthwise* conv = nullptr;
  const float* weights = nullptr;  // [kernel[0], kernel[1], pitch]
  std::int64_t pitch = 0;          // of weights and numbers: channels up to a multiple of 32
  TapNumbers numbers = {};
  const std::uint8_t* padding = nullptr;
};

/// Three lines that a line of results sees.
struct SweptLines {
  const std::uint8_t* at[3];
  std::int64_t step[3];  // from column to column: 0 where a line is padding
  std::int64_t columns;  // of the source
  std::int64_t left;     // columns of padding before them
  std::uint8_t padding;  // a byte of it, as the source has it
  std::uint8_t flip;     // 128 where bytes are s8 that are to be u8
};

/// Those of line `y` of an image's results; `padding`: a pixel of it.
inline SweptLines swept_lines(const ByteDepthwise& conv, const std::uint8_t* padding,
                              std::int64_t image, std::int64_t y) {
  const Windows& w = conv.windows;
  const std::uint8_t* from = conv.src + image * w.size[0] * w.size[1] * w.channels;
  SweptLines lines{.at = {},
                   .step = {},
                   .columns = w.size[1],
                   .left = w.pad[1],
                   .padding = *padding,
                   .flip = static_cast<std::uint8_t>(conv.is_signed ? 128 : 0)};
  for (std::int64_t l = 0; l < 3; ++l) {
    const std::int64_t line = y * w.stride[0] - w.pad[0] + l;
    const bool there = line >= 0 && line < w.size[0];
    lines.at[l] = there ? from + line * w.size[1] * w.channels : padding;
    lines.step[l] = there ? w.channels : 0;
  }
  return lines;
}

/// Whether windows are of three lines and columns, which a line of results sweeps by one or two.
inline bool may_be_swept(const Windows& w) {
  return w.kernel == Windows::Pair{3, 3} && w.dilation == Windows::Pair{1, 1} &&
         (w.stride[1] == 1 || w.stride[1] == 2);
}

}  // namespace ctxgen::kernels
