#include "ctxgen/kernels/byte_points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint8_t byte_of(float real, const ByteSteps& steps) {
  const float x = real / steps.scale;
  const auto least = static_cast<float>(steps.least), most = static_cast<float>(steps.most);
  const float held = x > least ? std::min(x, most) : least;  // NaN becomes the least
  return static_cast<std::uint8_t>(static_cast<int>(std::nearbyint(held)) + steps.zero);
}

constexpr ByteSteps kSteps[] = {{.scale = 0.02F},
                                {.scale = 0.013F, .zero = 128, .least = -128, .most = 127},
                                {.scale = 1.0F, .zero = -3, .least = -125, .most = 130},
                                {.scale = 0.5F, .zero = 10, .least = 0, .most = 60},
                                {.scale = 1e-30F},
                                {.scale = 1e30F}};

TEST(BytePoints, RoundsNumbersAsADivisionDoes) {
  std::mt19937 random(1);
  std::normal_distribution<float> some(0, 60);
  for (const ByteSteps& steps : kSteps)
    for (const std::size_t count : {1, 15, 64, 67, 1000}) {
      std::vector<float> in(count);
      for (std::size_t i = 0; i < count; ++i)  // every other one between two bytes
        in[i] = (i % 2 == 0 ? some(random) : std::floor(some(random)) + 0.5F) * steps.scale;
      for (std::size_t i = 0; i < count; i += 5)
        in[i] = std::nextafter(in[i], std::numeric_limits<float>::infinity());
      Bytes out(count + 1, 77);
      round_to_bytes(steps, static_cast<std::int64_t>(count), in.data(), out.data());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(out[i], byte_of(in[i], steps)) << in[i];
      EXPECT_EQ(out.back(), 77);
    }
}

TEST(BytePoints, RoundsExtremeNumbers) {
  constexpr float kEndless = std::numeric_limits<float>::infinity();
  for (const ByteSteps& steps : kSteps)
    for (const float x : {kEndless, -kEndless, std::numeric_limits<float>::quiet_NaN(), 3e38F,
                          -3e38F, 1e-40F, -0.0F}) {
      const std::vector<float> in(64, x);
      Bytes out(64);
      round_to_bytes(steps, 64, in.data(), out.data());
      EXPECT_EQ(out, Bytes(64, byte_of(x, steps))) << x;
    }
}

float real_of(const ByteTerm& term, std::size_t i) {
  const int value = term.is_signed ? static_cast<std::int8_t>(term.bytes[i]) : int{term.bytes[i]};
  const volatile float real = static_cast<float>(value - term.zero) * term.scale;
  return real;
}

/// All pairs of bytes, and a rest.
void expect_sums(ByteTerm a, ByteTerm b, const ByteSteps& steps) {
  constexpr std::size_t kCount = std::size_t{256} * 256 + 5;
  Bytes first(kCount), second(kCount), out(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    first[i] = static_cast<std::uint8_t>(i);
    second[i] = static_cast<std::uint8_t>(i / 256);
  }
  a.bytes = first.data();
  b.bytes = second.data();
  Bytes expected(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const volatile float sum = real_of(a, i) + real_of(b, i);
    expected[i] = byte_of(sum, steps);
  }
  add_to_bytes(a, b, steps, kCount, out.data());
  EXPECT_EQ(out, expected);
  add_to_bytes(a, b, steps, kCount, first.data());  // in place
  EXPECT_EQ(first, expected);
}

TEST(BytePoints, AddsAllPairsOfBytes) {
  for (const ByteSteps& steps : kSteps) {
    expect_sums({.zero = 12, .scale = 0.02F}, {.zero = 128, .scale = 0.01F}, steps);
    expect_sums({.is_signed = true, .zero = -7, .scale = 0.013F}, {.scale = 0.5F}, steps);
    expect_sums({.scale = 0.25F}, {.is_signed = true, .scale = 0.25F}, steps);
    expect_sums({.is_signed = true, .zero = 127, .scale = 3.0F},
                {.is_signed = true, .zero = 1, .scale = 1e-4F}, steps);
    expect_sums({.scale = 1e30F}, {.scale = 1e-30F}, steps);
  }
}

}  // namespace
}  // namespace ctxgen::kernels
