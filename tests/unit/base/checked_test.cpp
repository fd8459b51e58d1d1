#include "ctxgen/base/checked.h"

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

constexpr std::uint64_t kMax = ~std::uint64_t{0};

TEST(RangeFits, TakesWhatLiesInside) {
  EXPECT_TRUE(range_fits(0, 0, 0));
  EXPECT_TRUE(range_fits(0, 10, 10));
  EXPECT_TRUE(range_fits(10, 0, 10));
  EXPECT_TRUE(range_fits(3, 7, 10));
  EXPECT_TRUE(range_fits(0, kMax, kMax));
}

TEST(RangeFits, RefusesWhatEndsBehind) {
  EXPECT_FALSE(range_fits(3, 8, 10));
  EXPECT_FALSE(range_fits(11, 0, 10));
  EXPECT_FALSE(range_fits(0, 1, 0));
}

TEST(RangeFits, DoesNotWrap) {
  EXPECT_FALSE(range_fits(kMax, 2, 10));
  EXPECT_FALSE(range_fits(8, kMax - 4, 10));
  EXPECT_FALSE(range_fits(kMax, kMax, kMax));
}

TEST(CheckedAdd, StopsAtTwoToThe64) {
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
  EXPECT_EQ(checked_add(0, 0), 0U);
}

TEST(CheckedMul, StopsAtTwoToThe64) {
  EXPECT_EQ(checked_mul(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1),
            kMax - ((std::uint64_t{1} << 32) - 1));
  EXPECT_EQ(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(0, kMax), 0U);
}

TEST(AlignUp, GivesTheNextMultiple) {
  EXPECT_EQ(align_up(0, 64), 0U);
  EXPECT_EQ(align_up(1, 64), 64U);
  EXPECT_EQ(align_up(64, 64), 64U);
  EXPECT_EQ(align_up(4097, 4096), 8192U);
}

}  // namespace
}  // namespace ctxgen
