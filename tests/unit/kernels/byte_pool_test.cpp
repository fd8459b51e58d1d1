#include "ctxgen/kernels/byte_pool.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "random_windows.h"

namespace ctxgen::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// Element by element; all lines at once and one by one.
void expect_maxima(BytePool pool, std::uint32_t seed) {
  Windows& w = pool.windows;
  w.pitch = w.channels;
  std::mt19937 random(seed);
  Bytes src(static_cast<std::size_t>(w.images * w.size[0] * w.size[1] * w.channels));
  std::ranges::generate(src, [&] { return static_cast<std::uint8_t>(random()); });
  Bytes found(static_cast<std::size_t>(w.rows() * w.channels)), again(found.size());
  pool.src = src.data();
  pool.result = found.data();
  const std::int64_t lines = w.images * w.result[0];
  pool_byte_lines(pool, 0, lines);
  pool.result = again.data();
  for (std::int64_t line = 0; line < lines; ++line) pool_byte_lines(pool, line, 1);
  ASSERT_EQ(again, found);
  for (std::int64_t i = 0; i < std::ssize(found); ++i) {
    const std::int64_t pixel = i / w.channels, image = pixel / w.result[1] / w.result[0];
    int most = pool.is_signed ? -128 : 0;
    for (std::int64_t p = 0; p < w.kernel[0] * w.kernel[1]; ++p) {
      const std::int64_t y = pixel / w.result[1] % w.result[0] * w.stride[0] - w.pad[0] +
                             p / w.kernel[1] * w.dilation[0];
      const std::int64_t x =
          pixel % w.result[1] * w.stride[1] - w.pad[1] + p % w.kernel[1] * w.dilation[1];
      if (y < 0 || y >= w.size[0] || x < 0 || x >= w.size[1]) continue;
      const std::uint8_t byte = src[static_cast<std::size_t>(
          ((image * w.size[0] + y) * w.size[1] + x) * w.channels + i % w.channels)];
      most = std::max(most, pool.is_signed ? static_cast<std::int8_t>(byte) : int{byte});
    }
    ASSERT_EQ(found[static_cast<std::size_t>(i)], static_cast<std::uint8_t>(most)) << i;
  }
}

TEST(BytePool, IsTheLargestByteOfAnyWindow) {
  std::mt19937 random(11);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(most + 1));
  };
  for (std::uint32_t i = 0; i < 300; ++i) {
    BytePool pool{.windows = {.images = 1 + up_to(2), .channels = 1 + up_to(150)},
                  .is_signed = i % 2 == 0};
    test::choose_axes(pool.windows,
                      {.kernel = 5, .size = 12, .stride = 3, .dilation = 3, .pad = 9, .after = 9},
                      up_to);
    if (pool.windows.rows() > 0) expect_maxima(pool, i);
  }
}

TEST(BytePool, OfUsualWindows) {
  for (const std::int64_t channels : {1, 16, 63, 64, 65, 200})
    for (const bool is_signed : {false, true})
      expect_maxima({.windows = {.size = {21, 20},
                                 .result = {11, 10},
                                 .kernel = {3, 3},
                                 .stride = {2, 2},
                                 .pad = {1, 1},
                                 .channels = channels},
                     .is_signed = is_signed},
                    5);
}

}  // namespace
}  // namespace ctxgen::kernels
