#include "ctxgen/kernels/byte_windows.h"

#include <algorithm>
#include <format>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen::kernels {
namespace {

constexpr std::uint8_t kFill = 113;

std::string name_of(const Windows& w) {
  return std::format("{} x {} by {} x {}, stride {} {}, dilation {} {}, pad {} {}, {} of {}",
                     w.size[0], w.size[1], w.kernel[0], w.kernel[1], w.stride[0], w.stride[1],
                     w.dilation[0], w.dilation[1], w.pad[0], w.pad[1], w.channels, w.pitch);
}

/// Element by element, all windows in parts of `rows`, which `gap` zeros follow.
void expect_windows(const Windows& w, std::int64_t rows, std::int64_t gap = 0) {
  std::mt19937 random(7);
  std::vector<std::uint8_t> src(
      static_cast<std::size_t>(w.images * w.size[0] * w.size[1] * w.pitch));
  std::ranges::generate(src, [&] { return static_cast<std::uint8_t>(random()); });
  for (std::int64_t row = 0; row < w.rows(); row += rows) {
    const std::int64_t count = std::min(rows, w.rows() - row);
    const std::int64_t stride = w.depth() + gap;
    std::vector<std::uint8_t> found(static_cast<std::size_t>(count * stride), kFill);
    gather_windows(w, src.data(), kFill, row, count, stride, found.data());
    for (std::int64_t i = 0; i < std::ssize(found); ++i) {
      const std::int64_t at = row + i / stride, k = i % stride;
      if (k >= w.depth()) {
        ASSERT_EQ(found[static_cast<std::size_t>(i)], 0) << name_of(w) << ", after window " << at;
        continue;
      }
      const std::int64_t position = k / w.channels, channel = k % w.channels;
      const std::int64_t image = at / w.result[0] / w.result[1];
      const std::int64_t y = at / w.result[1] % w.result[0] * w.stride[0] - w.pad[0] +
                             position / w.kernel[1] * w.dilation[0];
      const std::int64_t x =
          at % w.result[1] * w.stride[1] - w.pad[1] + position % w.kernel[1] * w.dilation[1];
      const bool inside = y >= 0 && y < w.size[0] && x >= 0 && x < w.size[1];
      const std::int64_t from = ((image * w.size[0] + y) * w.size[1] + x) * w.pitch + channel;
      ASSERT_EQ(found[static_cast<std::size_t>(i)],
                inside ? src[static_cast<std::size_t>(from)] : kFill)
          << name_of(w) << ", window " << at << ", element " << k;
    }
  }
}

/// As many windows as fit where the image is padded by `pad` on all sides, or one.
Windows windows(Windows::Pair kernel, Windows::Pair stride, Windows::Pair dilation,
                Windows::Pair pad) {
  Windows w{.images = 2,
            .size = {5, 7},
            .kernel = kernel,
            .stride = stride,
            .dilation = dilation,
            .pad = pad,
            .channels = 3,
            .pitch = 3};
  for (std::size_t i = 0; i < 2; ++i)
    w.result[i] = std::max<std::int64_t>(
                      0, (w.size[i] + 2 * pad[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i]) +
                  1;
  return w;
}

TEST(ByteWindows, AreTheBytesOfTheImageAndTheFill) {
  using Pair = Windows::Pair;
  for (const Pair& kernel : {Pair{1, 1}, {3, 3}, {1, 5}, {5, 2}})
    for (const Pair& stride : {Pair{1, 1}, {2, 3}})
      for (const Pair& dilation : {Pair{1, 1}, {2, 2}, {1, 4}})
        for (const Pair& pad : {Pair{0, 0}, {1, 2}, {6, 9}}) {
          expect_windows(windows(kernel, stride, dilation, pad), 1000);
          expect_windows(windows(kernel, stride, dilation, pad), 4, 3);
        }
}

/// Lines of every length are copied in other pieces.
TEST(ByteWindows, OfLinesOfAnyLength) {
  for (std::int64_t channels = 1; channels <= 70; ++channels) {
    Windows w = windows({3, 2}, {1, 1}, {1, 1}, {2, 1});
    w.channels = w.pitch = channels;
    expect_windows(w, 9, channels % 4);
  }
}

/// Element by element, `lines` lines of results at a time.
void expect_padded_lines(const Windows& w, std::int64_t lines) {
  std::mt19937 random(7);
  std::vector<std::uint8_t> src(
      static_cast<std::size_t>(w.images * w.size[0] * w.size[1] * w.channels));
  std::ranges::generate(src, [&] { return static_cast<std::uint8_t>(random()); });
  for (std::int64_t image = 0; image < w.images; ++image)
    for (std::int64_t line = 0; line < w.result[0]; line += lines) {
      const std::int64_t count = std::min(lines, w.result[0] - line);
      const std::int64_t line_bytes = seen_columns(w) * w.channels;
      std::vector<std::uint8_t> found(static_cast<std::size_t>(seen_lines(w, count) * line_bytes));
      pad_lines(w, src.data(), kFill, image, line, count, found.data());
      for (std::int64_t i = 0; i < std::ssize(found); ++i) {
        const std::int64_t y = line * w.stride[0] - w.pad[0] + i / line_bytes;
        const std::int64_t x = i % line_bytes / w.channels - w.pad[1];
        const bool inside = y >= 0 && y < w.size[0] && x >= 0 && x < w.size[1];
        const std::int64_t from =
            ((image * w.size[0] + y) * w.size[1] + x) * w.channels + i % w.channels;
        ASSERT_EQ(found[static_cast<std::size_t>(i)],
                  inside ? src[static_cast<std::size_t>(from)] : kFill)
            << name_of(w) << ", line " << line << ", byte " << i;
      }
    }
}

TEST(ByteWindows, OfLinesWithTheirPadding) {
  using Pair = Windows::Pair;
  for (const Pair& kernel : {Pair{1, 1}, {3, 3}, {1, 5}, {5, 2}})
    for (const Pair& stride : {Pair{1, 1}, {2, 3}, {4, 4}})
      for (const Pair& pad : {Pair{0, 0}, {1, 2}, {6, 9}})
        for (const std::int64_t lines : {1, 2, 1000}) {
          expect_padded_lines(windows(kernel, stride, {1, 1}, pad), lines);
          expect_padded_lines(windows(kernel, stride, {2, 1}, pad), lines);
        }
}

/// A group of the channels of each pixel.
TEST(ByteWindows, OfPixelsThatAreFartherApart) {
  Windows w = windows({3, 3}, {1, 1}, {1, 1}, {1, 1});
  w.pitch = 8;
  expect_windows(w, 11);
  w.channels = 1;
  expect_windows(w, 11);
}

}  // namespace
}  // namespace ctxgen::kernels
