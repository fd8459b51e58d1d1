#include "ctxgen/kernels/moments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "random_floats.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kUnit = 1.0 / (1 << 24);

using Floats = std::vector<float>;
using test::random_floats;

Moments exact(const Floats& list) {
  Moments m{static_cast<double>(list.size())};
  for (const float x : list) m.mean += double{x} / m.count;
  for (const float x : list) m.squares += (double{x} - m.mean) * (double{x} - m.mean);
  return m;
}

/// The larger of both errors, in units of 2^-24 of the deviation.
double error_of(const Moments& got, const Moments& expected) {
  EXPECT_EQ(got.count, expected.count);
  const double deviation = std::sqrt(expected.squares / expected.count);
  const double mean = std::fabs(got.mean - expected.mean);
  const double apart = std::fabs(std::sqrt(got.squares / got.count) - deviation);
  return std::max(mean, apart / 3) / (kUnit * deviation);
}

TEST(Moments, AreCloseToDoublePrecision) {
  double worst = 0;
  for (const float mean : {0.0F, 3.0F, 1e4F, -1e6F})
    for (const std::size_t n : {2, 7, 16, 33, 100, 1000, 4096, 4097, 100000}) {
      const Floats list = random_floats(n, mean, 2, 3);
      const double error = error_of(moments_of(std::ssize(list), list.data()), exact(list));
      worst = std::max(worst, error);
      EXPECT_LE(error, 1) << n << " around " << mean;
    }
  RecordProperty("units", std::to_string(worst));
}

/// Channels of rows that are longer, so that what is next to them must not be read into the sums.
TEST(Moments, OfChannelsAreCloseToDoublePrecision) {
  double worst = 0;
  for (const std::int64_t size : {1, 2, 3, 16, 40, 512, 700})
    for (const std::int64_t groups : {1, 2, 5, 33})
      for (const std::int64_t rows : {1, 2, 5, 129, 300}) {
        const std::int64_t stride = size * groups + 3;
        Floats list = random_floats(static_cast<std::size_t>(stride * rows), 20, 2, 9);
        std::vector<Moments> got(static_cast<std::size_t>(groups));
        add_moments(rows, stride, size, list.data(), got);
        for (std::int64_t g = 0; g < groups; ++g) {
          Floats group;
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < size; ++c)
              group.push_back(list[static_cast<std::size_t>(r * stride + g * size + c)]);
          if (group.size() == 1) continue;
          const double error = error_of(got[static_cast<std::size_t>(g)], exact(group));
          worst = std::max(worst, error);
          EXPECT_LE(error, 1) << size << " channels, " << groups << " groups, " << rows << " rows";
        }
      }
  RecordProperty("units", std::to_string(worst));
}

TEST(Moments, AddToThoseThatAreThere) {
  const Floats list = random_floats(300, 5, 1, 2);
  std::vector<Moments> got(1);
  for (const std::int64_t part : {0, 1, 2}) add_moments(10, 10, 10, list.data() + part * 100, got);
  EXPECT_LE(error_of(got[0], exact(list)), 1);
}

TEST(Moments, OfConstantNumbers) {
  for (const float x : {0.0F, 0.3F, -1e6F, 1e-30F, 3e38F}) {
    const Floats list(1000, x);
    std::vector<Moments> channels(2);
    add_moments(100, 10, 5, list.data(), channels);
    for (const Moments& m : {moments_of(1000, list.data()), channels[0], channels[1]}) {
      EXPECT_EQ(m.mean, double{x});
      EXPECT_EQ(m.squares, 0) << x;
    }
  }
}

TEST(Moments, OfVeryLargeAndVerySmallNumbers) {
  for (const float size : {1e-38F, 1e-25F, 1e-19F, 1e18F, 1e25F, 3e37F}) {
    const Floats list = random_floats(500, 0, size, 4);
    std::vector<Moments> channels(1);
    add_moments(50, 10, 10, list.data(), channels);
    EXPECT_LE(error_of(moments_of(500, list.data()), exact(list)), 1) << size;
    EXPECT_LE(error_of(channels[0], exact(list)), 1) << size;
  }
}

TEST(Moments, OfNanAndInfinity) {
  for (const float special : {kNan, kInfinity, -kInfinity})
    for (const std::size_t at : {0, 41, 99}) {
      Floats list(100, 1);
      list[at] = special;
      const Moments m = moments_of(100, list.data());
      EXPECT_TRUE(std::isnan(m.squares)) << special << " " << m.squares;
      std::vector<Moments> channels(2);
      add_moments(10, 10, 5, list.data(), channels);
      EXPECT_TRUE(std::isnan(channels[at % 10 / 5].squares));
      EXPECT_EQ(channels[1 - at % 10 / 5].squares, 0);
    }
}

TEST(Moments, OfNothing) {
  EXPECT_EQ(moments_of(0, nullptr).count, 0);
  std::vector<Moments> channels(1);
  add_moments(0, 1, 1, nullptr, channels);
  EXPECT_EQ(channels[0].count, 0);
}

TEST(Normalize, RowsAndChannels) {
  for (const std::size_t n : {1, 7, 16, 35, 100}) {
    const Floats in = random_floats(n, 0, 1, 1), mean = random_floats(n, 0, 1, 2),
                 factor = random_floats(n, 0, 1, 3), offset = random_floats(n, 0, 1, 4);
    Floats channels(n + 1, -77), row(n + 1, -77);
    normalize_channels(std::ssize(in), mean.data(), factor.data(), offset.data(), in.data(),
                       channels.data());
    normalize_row(std::ssize(in), {mean[0], factor[0], offset[0]}, in.data(), row.data());
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_NEAR(channels[i], (in[i] - mean[i]) * factor[i] + offset[i], 1e-5);
      EXPECT_NEAR(row[i], (in[i] - mean[0]) * factor[0] + offset[0], 1e-5);
    }
    EXPECT_EQ(channels.back(), -77);
    EXPECT_EQ(row.back(), -77);
  }
}

}  // namespace
}  // namespace ctxgen::kernels
