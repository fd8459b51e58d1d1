#include "ctxgen/base/resize_axis.h"

#include <gtest/gtest.h>

namespace ctxgen {
namespace {

TEST(ResizeAxis, EveryCoordinateMode) {
  const ResizeAxis doubled{.input = 4, .output = 8, .scale = 2};
  EXPECT_EQ(source_position(doubled, "half_pixel", 3), 1.25);
  EXPECT_EQ(source_position(doubled, "pytorch_half_pixel", 3), 1.25);
  EXPECT_EQ(source_position(doubled, "asymmetric", 3), 1.5);
  EXPECT_EQ(source_position(doubled, "tf_half_pixel_for_nn", 3), 1.75);
  EXPECT_EQ(source_position(doubled, "align_corners", 7), 3);
  EXPECT_EQ(source_position(doubled, "half_pixel_symmetric", 3), 1.25);
  const ResizeAxis cut{
      .input = 4, .output = 4, .scale = 1.25};  // 5 elements exactly, one is left out
  EXPECT_EQ(source_position(cut, "half_pixel_symmetric", 0),
            source_position(cut, "half_pixel", 0) + 2 * (1 - 4.0 / 5));
  const ResizeAxis to_one{.input = 4, .output = 1, .scale = 0.25};
  EXPECT_EQ(source_position(to_one, "align_corners", 0), 0);
  EXPECT_EQ(source_position(to_one, "pytorch_half_pixel", 0), -0.5);
  EXPECT_EQ(source_position(to_one, "half_pixel", 0), 1.5);
}

TEST(ResizeAxis, EveryNearestMode) {
  EXPECT_EQ(nearest_index("round_prefer_floor", 1.5), 1);
  EXPECT_EQ(nearest_index("round_prefer_ceil", 1.5), 2);
  EXPECT_EQ(nearest_index("floor", 1.75), 1);
  EXPECT_EQ(nearest_index("ceil", 1.25), 2);
  EXPECT_EQ(nearest_index("ceil", 1), 1);
  EXPECT_EQ(nearest_index("round_prefer_floor", -0.75), -1);
  EXPECT_EQ(nearest_index("floor", -0.25), -1);
}

}  // namespace
}  // namespace ctxgen
