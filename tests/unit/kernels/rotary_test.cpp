#include "ctxgen/kernels/rotary.h"

#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

std::vector<float> random_numbers(std::int64_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-2, 2);
  std::vector<float> list(static_cast<std::size_t>(n));
  for (float& x : list) x = distribution(generator);
  return list;
}

TEST(RotateHead, IsCloseToDoublePrecision) {
  for (const RotaryPairs pairs : {RotaryPairs::kHalves, RotaryPairs::kNeighbours})
    for (const std::int64_t half : {0, 1, 2, 3, 8, 16, 19, 32, 64})
      for (const std::int64_t rest : {0, 1, 5})
        for (const bool in_place : {false, true}) {
          const std::int64_t size = 2 * half + rest;
          const auto cos = random_numbers(half, 1), sin = random_numbers(half, 2);
          const auto in = random_numbers(size, 3);
          std::vector<float> out = in_place ? in : std::vector<float>(in.size(), -77);
          rotate_head(size, half, pairs, cos.data(), sin.data(), in_place ? out.data() : in.data(),
                      out.data());
          for (std::int64_t i = 0; i < half; ++i) {
            const bool halves = pairs == RotaryPairs::kHalves;
            const auto first = static_cast<std::size_t>(halves ? i : 2 * i);
            const auto second = static_cast<std::size_t>(halves ? i + half : 2 * i + 1);
            const auto at = static_cast<std::size_t>(i);
            const double x = double{in[first]}, y = double{in[second]};
            const double c = double{cos[at]}, s = double{sin[at]};
            const double error = 2.5e-7 * (std::fabs(x * c) + std::fabs(y * s) + std::fabs(x * s) +
                                           std::fabs(y * c));
            test::note_error(double{out[first]} - (x * c - y * s),
                             std::fabs(x * c) + std::fabs(y * s));
            test::note_error(double{out[second]} - (x * s + y * c),
                             std::fabs(x * s) + std::fabs(y * c));
            EXPECT_NEAR(double{out[first]}, x * c - y * s, error) << size << " " << i;
            EXPECT_NEAR(double{out[second]}, x * s + y * c, error) << size << " " << i;
          }
          for (std::int64_t i = 2 * half; i < size; ++i)
            EXPECT_EQ(out[static_cast<std::size_t>(i)], in[static_cast<std::size_t>(i)]);
        }
}

}  // namespace
}  // namespace ctxgen::kernels
