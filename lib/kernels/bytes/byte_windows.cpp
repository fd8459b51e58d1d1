#include "ctxgen/kernels/byte_windows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "stretches.h"

namespace ctxgen::kernels {
namespace {

using Sixteen = std::array<std::uint64_t, 2>;

/// Moves as many bytes as a word has, or up to twice as many, by two words that may overlap: a call of
/// memcpy takes longer than that.
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
  constexpr std::int64_t kFew = 64;
  if (count > kFew) {
    std::memcpy(to, from, static_cast<std::size_t>(count));
  } else if (count >= 16) {
    for (; count > 32; count -= 16, to += 16, from += 16) std::memcpy(to, from, 16);
    copy_ends<Sixteen>(to, from, count);
  } else if (count >= 8) {
    copy_ends<std::uint64_t>(to, from, count);
  } else if (count >= 4) {
    copy_ends<std::uint32_t>(to, from, count);
  } else if (count >= 2) {
    copy_ends<std::uint16_t>(to, from, count);
  } else if (count == 1) {
    *to = *from;
  }
}

std::uint8_t* fill_bytes(std::uint8_t* to, std::uint8_t fill, std::int64_t count) {
  if (count > 0 && count <= 8) {
    const std::uint64_t eight = fill * 0x0101010101010101U;
    copy_bytes(to, reinterpret_cast<const std::uint8_t*>(&eight), count);
  } else if (count > 0) {
    std::memset(to, fill, static_cast<std::size_t>(count));
  }
  return to + count;
}

/// Pixels of a line of the image, to consecutive bytes.
std::uint8_t* copy_pixels(const Windows& w, const std::uint8_t* from, std::int64_t pixels,
                          std::uint8_t* to) {
  if (w.dilation[1] == 1 && w.pitch == w.channels) {
    copy_bytes(to, from, pixels * w.channels);
    return to + pixels * w.channels;
  }
  for (; pixels > 0; --pixels, to += w.channels, from += w.dilation[1] * w.pitch)
    copy_bytes(to, from, w.channels);
  return to;
}

/// A window whose first pixel is at line y and column x of an image.
void gather_window(const Windows& w, const std::uint8_t* image, std::int64_t y, std::int64_t x,
                   std::uint8_t fill, std::uint8_t* to) {
  const Positions lines = positions(y, w.size[0], w.kernel[0], w.dilation[0]);
  const Positions columns = positions(x, w.size[1], w.kernel[1], w.dilation[1]);
  const std::int64_t count = columns.count(), line_bytes = w.kernel[1] * w.channels;
  if (lines.count() == 0 || count == 0) {
    fill_bytes(to, fill, w.depth());
    return;
  }
  to = fill_bytes(to, fill, lines.first * line_bytes);
  const std::int64_t from_line = w.dilation[0] * w.size[1] * w.pitch;
  const std::uint8_t* from =
      image +
      ((y + lines.first * w.dilation[0]) * w.size[1] + x + columns.first * w.dilation[1]) * w.pitch;
  for (std::int64_t line = lines.first; line < lines.end; ++line, from += from_line) {
    to = fill_bytes(to, fill, columns.first * w.channels);
    to = copy_pixels(w, from, count, to);
    to = fill_bytes(to, fill, (w.kernel[1] - columns.end) * w.channels);
  }
  fill_bytes(to, fill, (w.kernel[0] - lines.end) * line_bytes);
}

/// Lines of equal length, to consecutive bytes.
struct Lines {
  std::int64_t count, bytes;
  std::int64_t from_line;  // from a line to the next one
};

template <class Copy>
void copy_each(const Lines& lines, const std::uint8_t* from, std::uint8_t* to, const Copy& copy) {
  const auto [count, bytes, from_line] = lines;  // bytes that are written could be those of `lines`
  for (std::int64_t line = 0; line < count; ++line, to += bytes, from += from_line)
    copy(to, from, bytes);
}

void copy_lines(const Lines& lines, const std::uint8_t* from, std::uint8_t* to) {
  if (lines.bytes >= 4 && lines.bytes <= 8)
    copy_each(lines, from, to, copy_ends<std::uint32_t>);
  else if (lines.bytes >= 8 && lines.bytes <= 16)
    copy_each(lines, from, to, copy_ends<std::uint64_t>);
  else if (lines.bytes >= 16 && lines.bytes <= 32)
    copy_each(lines, from, to, copy_ends<Sixteen>);
  else
    copy_each(lines, from, to, copy_bytes);
}

}  // namespace

void gather_windows(const Windows& w, const std::uint8_t* src, std::uint8_t fill, std::int64_t row,
                    std::int64_t rows, std::int64_t stride, std::uint8_t* to) {
  std::int64_t column = row % w.result[1], line = row / w.result[1] % w.result[0];
  const std::int64_t line_bytes = w.size[1] * w.pitch, image_bytes = w.size[0] * line_bytes;
  const std::uint8_t* image = src + row / w.result[1] / w.result[0] * image_bytes;
  const std::int64_t depth = w.depth();
  const Lines lines{w.kernel[0], w.kernel[1] * w.channels, w.dilation[0] * line_bytes};
  const bool joined = w.dilation[1] == 1 && w.pitch == w.channels;
  // Windows that begin at these places are whole.
  const std::int64_t whole_lines = w.size[0] - (w.kernel[0] - 1) * w.dilation[0];
  const std::int64_t whole_columns = joined ? w.size[1] - w.kernel[1] + 1 : 0;
  for (std::int64_t i = 0; i < rows; ++i, to += stride) {
    if (stride > depth) fill_bytes(to + depth, 0, stride - depth);
    const std::int64_t y = line * w.stride[0] - w.pad[0], x = column * w.stride[1] - w.pad[1];
    if (y >= 0 && y < whole_lines && x >= 0 && x < whole_columns)
      copy_lines(lines, image + y * line_bytes + x * w.pitch, to);
    else
      gather_window(w, image, y, x, fill, to);
    if (++column < w.result[1]) continue;
    column = 0;
    if (++line < w.result[0]) continue;
    line = 0;
    image += image_bytes;
  }
}

void pad_lines(const Windows& w, const std::uint8_t* src, std::uint8_t fill, std::int64_t image,
               std::int64_t line, std::int64_t lines, std::uint8_t* to) {
  const std::int64_t columns = seen_columns(w), channels = w.channels;
  const std::int64_t left = std::min(w.pad[1], columns);
  const std::int64_t inside = std::clamp<std::int64_t>(w.size[1], 0, columns - left);
  const std::int64_t first = line * w.stride[0] - w.pad[0];
  const std::int64_t line_bytes = w.size[1] * channels;
  for (std::int64_t y = first; y < first + seen_lines(w, lines); ++y) {
    if (y < 0 || y >= w.size[0]) {
      to = fill_bytes(to, fill, columns * channels);
      continue;
    }
    to = fill_bytes(to, fill, left * channels);
    copy_bytes(to, src + (image * w.size[0] + y) * line_bytes, inside * channels);
    to = fill_bytes(to + inside * channels, fill, (columns - left - inside) * channels);
  }
}

}  // namespace ctxgen::kernels
