#include "ctxgen/kernels/dynamic_quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Quantized {
  std::vector<std::uint8_t> y;
  float scale = 0;
  std::uint8_t zero = 0;
  bool operator==(const Quantized&) const = default;
};

Quantized quantized(const std::vector<float>& x, Workers& workers) {
  Quantized q{.y = std::vector<std::uint8_t>(x.size())};
  dynamic_quantize({.count = static_cast<std::int64_t>(x.size()),
                    .x = x.data(),
                    .y = q.y.data(),
                    .scale = &q.scale,
                    .zero = &q.zero},
                   workers);
  return q;
}
Quantized quantized(const std::vector<float>& x) {
  OneThread workers;
  return quantized(x, workers);
}

/// ONNX's formula, an operation at a time.
Quantized formula(const std::vector<float>& x) {
  float low = 0, high = 0;
  for (const float value : x) {
    if (std::isnan(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  Quantized q;
  q.scale = low == high ? 1.0F : (high - low) / 255.0F;
  const float least = -low / q.scale;
  const float zero = std::isnan(least) ? 0 : std::nearbyint(std::clamp(least, 0.0F, 255.0F));
  q.zero = static_cast<std::uint8_t>(zero);
  for (const float value : x) {
    const float steps = std::nearbyint(value / q.scale);
    q.y.push_back(std::isnan(steps)
                      ? q.zero
                      : static_cast<std::uint8_t>(std::clamp(steps + zero, 0.0F, 255.0F)));
  }
  return q;
}

std::vector<float> numbers(std::size_t count, float low, float high, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> some(low, high);
  std::vector<float> x(count);
  std::ranges::generate(x, [&] { return some(random); });
  return x;
}

void expect_formula(const std::vector<float>& x) {
  const Quantized expected = formula(x), found = quantized(x);
  EXPECT_EQ(found.scale, expected.scale);
  EXPECT_EQ(found.zero, expected.zero);
  EXPECT_EQ(found.y, expected.y) << x.size() << " from " << (x.empty() ? 0 : x[0]);
}

TEST(DynamicQuantize, IsTheFormulaBitForBit) {
  unsigned seed = 0;
  for (const auto& [low, high] : {std::pair{-1.0F, 1.0F},
                                  {-3.7F, 100.0F},
                                  {2.0F, 3.0F},
                                  {-9.0F, -2.0F},
                                  {-1e-38F, 1e-39F},
                                  {-3e38F, 3e38F},
                                  {0.0F, 1e-43F},
                                  {-1e35F, 1e33F}})
    for (const std::size_t count : {1, 3, 15, 17, 40, 1000, 70001})
      expect_formula(numbers(count, low, high, ++seed));
}

/// Halves of steps: those that a product with 1 / scale would round to the other side.
TEST(DynamicQuantize, RoundsHalvesAsADivisionDoes) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const float range = numbers(1, 0.001F, 900.0F, seed)[0];
    std::vector<float> x{range};
    const float scale = range / 255.0F;
    for (int step = 0; step < 255; ++step) {
      const float half = (static_cast<float>(step) + 0.5F) * scale;
      for (const float value : {std::nextafter(half, 0.0F), half, std::nextafter(half, 1e9F)})
        x.push_back(value);
    }
    expect_formula(x);
  }
}

TEST(DynamicQuantize, OfZerosHasScaleOne) {
  for (const std::size_t count : {0, 1, 50}) {
    const Quantized q = quantized(std::vector<float>(count, 0.0F));
    EXPECT_EQ(q.scale, 1.0F);
    EXPECT_EQ(q.zero, 0);
    EXPECT_EQ(q.y, std::vector<std::uint8_t>(count, 0));
  }
}

TEST(DynamicQuantize, GivesNanTheZeroPoint) {
  for (const std::size_t at : {0, 7, 16, 39}) {
    std::vector<float> x = numbers(40, -1, 3, 2);
    x[at] = kNan;
    expect_formula(x);
    EXPECT_EQ(quantized(x).y[at], quantized(x).zero);
  }
  expect_formula(std::vector<float>(33, kNan));
}

TEST(DynamicQuantize, OfInfinityHasAnInfiniteScale) {
  for (const std::size_t at : {0, 7, 39})
    for (const float special : {kInfinity, -kInfinity}) {
      std::vector<float> x = numbers(40, -1, 3, 2);
      x[at] = special;
      EXPECT_EQ(quantized(x).scale, kInfinity);
      expect_formula(x);
    }
}

TEST(DynamicQuantize, DoesNotDependOnWorkers) {
  for (const std::size_t count : {20000, 200000, 3000000}) {
    const std::vector<float> x = numbers(count, -5, 3, 7);
    StartedThreads threads(4);
    EXPECT_EQ(quantized(x, threads), quantized(x));
  }
}

}  // namespace
}  // namespace ctxgen::kernels
