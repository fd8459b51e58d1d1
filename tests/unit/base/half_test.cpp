#include "ctxgen/base/half.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

/// IEEE binary16 by its definition: sign, 5 bits of exponent, 10 of fraction.
double binary16_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Float16, EveryPatternHasItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const double expected = binary16_value(pattern);
    const float found = float16_to_float(pattern);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
      ASSERT_TRUE(std::isnan(float16_to_float(float_to_float16(found)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(found), expected) << bits;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
    ASSERT_EQ(float_to_float16(found), pattern) << bits;
  }
}

TEST(Float16, RoundsToNearestEvenBetweenNeighbours) {
  for (unsigned bits = 0; bits < 0x7bff; ++bits) {  // finite, positive, with a neighbour above
    const float low = float16_to_float(static_cast<std::uint16_t>(bits));
    const float high = float16_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (low + high) / 2;  // exact in float
    const auto even = static_cast<std::uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_float16(middle), even) << bits;
    ASSERT_EQ(float_to_float16(std::nextafter(middle, low)), bits);
    ASSERT_EQ(float_to_float16(std::nextafter(middle, high)), bits + 1);
  }
}

TEST(Float16, OverflowsToInfinity) {
  EXPECT_EQ(float_to_float16(65504.0F), 0x7bff);
  EXPECT_EQ(float_to_float16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_float16(65520.0F), 0x7c00);
  EXPECT_EQ(float_to_float16(-1e30F), 0xfc00);
}

TEST(Bfloat16, EveryPatternComesBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const float value = bfloat16_to_float(pattern);
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value)))) << bits;
    else
      ASSERT_EQ(float_to_bfloat16(value), pattern) << bits;
  }
}

TEST(Bfloat16, RoundsToNearestEvenBetweenNeighbours) {
  for (unsigned bits = 0; bits < 0x7f7f; ++bits) {
    const std::uint32_t middle = (bits << 16) | 0x8000;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle)), bits + bits % 2) << bits;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle - 1)), bits) << bits;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle + 1)), bits + 1) << bits;
  }
}

TEST(Bfloat16, KeepsNanWhosePayloadIsInTheLowHalf) {
  const float nan = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(nan))));
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace ctxgen
