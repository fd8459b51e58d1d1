#include "ctxgen/kernels/byte_windows.h"

#include <algorithm>
#include <cstring>

namespace ctxgen::kernels {
namespace {

/// Moves at most 16 bytes by two words that may overlap: a call of memcpy takes longer than that.
template <class Word>
void copy_ends(std::uint8_t* to, const std::uint8_t* from, std::int64_t count) {
  Word first, last;
  const std::int64_t end = count - static_cast<std::int64_t>(sizeof(Word));
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&last, from + end, sizeof last);
  std::memcpy(to, &first, sizeof first);
  std::memcpy(to + end, &last, sizeof last);
}

void copy_bytes(std::uint8_t* to, const std::uint8_t* from, std::int64_t count) {
  constexpr std::int64_t kFew = 16;
  if (count > kFew)
    std::memcpy(to, from, static_cast<std::size_t>(count));
  else if (count >= 8)
    copy_ends<std::uint64_t>(to, from, count);
  else if (count >= 4)
    copy_ends<std::uint32_t>(to, from, count);
  else if (count >= 2)
    copy_ends<std::uint16_t>(to, from, count);
  else if (count == 1)
    *to = *from;
}

void fill_bytes(std::uint8_t* to, std::uint8_t fill, std::int64_t count) {
  if (count > 0) std::memset(to, fill, static_cast<std::size_t>(count));
}

/// A line of a window, which begins at column `x` of the image's line; null: outside.
void gather_line(const Windows& w, const std::uint8_t* line, std::int64_t x, std::uint8_t fill,
                 std::uint8_t* to) {
  const std::int64_t dilation = w.dilation[1], kernel = w.kernel[1];
  if (line == nullptr) {
    return fill_bytes(to, fill, kernel * w.channels);
  }
  // Positions [first, end) of the kernel are inside.
  const std::int64_t first = x < 0 ? std::min((-x + dilation - 1) / dilation, kernel) : 0;
  const std::int64_t end =
      x < w.size[1] ? std::min((w.size[1] - x + dilation - 1) / dilation, kernel) : 0;
  if (first >= end) return gather_line(w, nullptr, 0, fill, to);
  fill_bytes(to, fill, first * w.channels);
  to += first * w.channels;
  const std::uint8_t* from = line + (x + first * dilation) * w.pitch;
  if (dilation == 1 && w.pitch == w.channels) {
    copy_bytes(to, from, (end - first) * w.channels);
    to += (end - first) * w.channels;
  } else {
    for (std::int64_t i = first; i < end; ++i, to += w.channels, from += dilation * w.pitch)
      copy_bytes(to, from, w.channels);
  }
  fill_bytes(to, fill, (kernel - end) * w.channels);
}

}  // namespace

void gather_windows(const Windows& w, const std::uint8_t* src, std::uint8_t fill, std::int64_t row,
                    std::int64_t rows, std::uint8_t* to) {
  std::int64_t column = row % w.result[1], line = row / w.result[1] % w.result[0];
  std::int64_t image = row / w.result[1] / w.result[0];
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t y = line * w.stride[0] - w.pad[0], x = column * w.stride[1] - w.pad[1];
    for (std::int64_t j = 0; j < w.kernel[0]; ++j) {
      const std::int64_t at = y + j * w.dilation[0];
      const bool inside = at >= 0 && at < w.size[0];
      const std::uint8_t* from =
          inside ? src + (image * w.size[0] + at) * w.size[1] * w.pitch : nullptr;
      gather_line(w, from, x, fill, to);
      to += w.kernel[1] * w.channels;
    }
    if (++column < w.result[1]) continue;
    column = 0;
    if (++line < w.result[0]) continue;
    line = 0;
    ++image;
  }
}

}  // namespace ctxgen::kernels
