#include "reference.h"

namespace ctxgen::testing {
namespace {

constexpr const char* kCoordinates[] = {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                        "align_corners", "asymmetric"};

std::string behind_conv(TestGraph& g) {
  return g.add("Conv", {g.input("x", {2, 3, 6, 9}), g.constant({5, 3, 3, 3})});  // 4 x 7
}

TEST(DnnlResize, NearestInEveryModeByScales) {
  for (const char* coordinates : kCoordinates)
    for (const char* nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})
      for (const List& tenths : {List{20, 30}, List{25, 7}, List{10, 15}, List{33, 4}}) {
        SCOPED_TRACE(std::format("{} {} {}", coordinates, nearest, tenths[0]));
        TestGraph g(13);
        const std::string scales = g.constant(
            {4}, {1, 1, static_cast<float>(tenths[0]) / 10, static_cast<float>(tenths[1]) / 10});
        const std::string r =
            g.add("Resize", {behind_conv(g), "", scales},
                  {attr("mode", std::string("nearest")),
                   attr("coordinate_transformation_mode", std::string(coordinates)),
                   attr("nearest_mode", std::string(nearest))});
        g.output(g.add("Relu", {r}));
        expect_same(g);
      }
}

TEST(DnnlResize, LinearInEveryModeBySizes) {
  for (const char* coordinates : kCoordinates)
    for (const List& size : {List{8, 21}, List{3, 10}, List{1, 1}, List{4, 5}}) {
      SCOPED_TRACE(std::format("{} {}x{}", coordinates, size[0], size[1]));
      TestGraph g(13);
      g.output(g.add("Resize", {behind_conv(g), "", "", g.ints({2, 5, size[0], size[1]})},
                     {attr("mode", std::string("linear")),
                      attr("coordinate_transformation_mode", std::string(coordinates))}));
      expect_same(g, 1e-5);
    }
}

TEST(DnnlResize, LinearReference) {
  TestGraph g(11);
  const std::string x = g.input("x", {1, 2, 5});
  const std::string y =
      g.add("Resize", {x, "", g.constant({3}, {1, 1, 2})}, {attr("mode", std::string("linear"))});
  g.output(y);
  std::vector<double> expected;
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t i = 0; i < 10; ++i) {
      const double at_x = std::clamp((static_cast<double>(i) + 0.5) / 2 - 0.5, 0.0, 4.0);
      const auto low = static_cast<std::int64_t>(at_x);
      const double part = at_x - static_cast<double>(low);
      const std::int64_t high = std::min<std::int64_t>(low + 1, 4);
      expected.push_back(at(g.value(x), c * 5 + low) * (1 - part) +
                         at(g.value(x), c * 5 + high) * part);
    }
  expect_reference(g, y, expected);
  expect_same(g);
}

TEST(DnnlResize, VolumesAxesAndOtherDims) {
  TestGraph volume(13);
  volume.output(volume.add(
      "Resize", {volume.input("x", {1, 2, 3, 4, 5}), "", volume.constant({5}, {1, 1, 2, 1.5F, 3})},
      {attr("mode", std::string("linear"))}));
  expect_same(volume, 1e-5);
  TestGraph axes(18);
  axes.output(axes.add("Resize", {axes.input("x", {1, 2, 3, 4}), "", "", axes.ints({9, 6})},
                       {attr("axes", List{3, 2}), attr("mode", std::string("nearest"))}));
  expect_same(axes);
  TestGraph all(13);
  all.output(
      all.add("Resize", {all.input("x", {2, 3, 4}), "", all.constant({3}, {2, 1.5F, 0.5F})}));
  expect_same(all);
}

TEST(DnnlResize, OldVersions) {
  for (const char* mode : {"nearest", "linear"}) {
    TestGraph ten(10);
    ten.output(ten.add("Resize", {behind_conv(ten), ten.constant({4}, {1, 1, 2, 2.5F})},
                       {attr("mode", std::string(mode))}));
    expect_same(ten, 1e-5);
    TestGraph nine(9);
    nine.output(nine.add("Upsample", {behind_conv(nine), nine.constant({4}, {1, 1, 2, 3})},
                         {attr("mode", std::string(mode))}));
    expect_same(nine, 1e-5);
  }
}

}  // namespace
}  // namespace ctxgen::testing
