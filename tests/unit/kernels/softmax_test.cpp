#include "ctxgen/kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> softmax(std::vector<float> row) {
  softmax_row(std::ssize(row), row.data(), row.data());
  return row;
}

std::vector<double> exact(const std::vector<float>& row) {
  const double most = *std::max_element(row.begin(), row.end());
  std::vector<double> result;
  double sum = 0;
  for (const float x : row) sum += std::exp(double{x} - most);
  for (const float x : row) result.push_back(std::exp(double{x} - most) / sum);
  return result;
}

TEST(SoftmaxRow, IsCloseToDoublePrecision) {
  std::mt19937 generator(7);
  for (const float spread : {0.1F, 3.0F, 40.0F})
    for (const int n : {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 100, 128, 197, 512, 4096}) {
      std::normal_distribution<float> numbers(5, spread);
      std::vector<float> row(static_cast<std::size_t>(n));
      for (float& x : row) x = numbers(generator);
      const std::vector<double> expected = exact(row);
      const std::vector<float> got = softmax(row);
      for (std::size_t i = 0; i < row.size(); ++i) {
        // in[i] - max is rounded once, and exp's result changes by as much as its argument.
        const double below = double{*std::ranges::max_element(row)} - double{row[i]};
        const double unit = double{std::numeric_limits<float>::epsilon()} * expected[i];
        if (expected[i] > 1e-36)  // far below the sum others are 0
          test::note_error(double{got[i]} - expected[i], (1 + below) * expected[i]);
        EXPECT_NEAR(double{got[i]}, expected[i], (4 + below) * unit + 1e-37) << n << " " << i;
      }
    }
}

TEST(SoftmaxRow, OfNothing) { EXPECT_TRUE(softmax({}).empty()); }

TEST(SoftmaxRow, OfNanAndInfinity) {
  for (const std::size_t n : {1, 5, 40})
    for (std::size_t at = 0; at < n; ++at) {
      std::vector<float> row(n, 1);
      row[at] = kNan;
      for (const float y : softmax(row)) EXPECT_TRUE(std::isnan(y));
      row[at] = kInfinity;
      for (const float y : softmax(row)) EXPECT_TRUE(std::isnan(y));
      if (n == 1) continue;
      row[at] = -kInfinity;  // a mask
      const std::vector<float> masked = softmax(row);
      EXPECT_EQ(masked[at], 0);
      EXPECT_NEAR(masked[at == 0 ? 1 : 0], 1.0 / (static_cast<double>(n) - 1), 1e-7);
    }
  for (const float y : softmax(std::vector<float>(20, -kInfinity))) EXPECT_TRUE(std::isnan(y));
}

TEST(SoftmaxRow, KeepsLargeNumbersApart) {
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(softmax({most, -most, most}), (std::vector<float>{0.5F, 0, 0.5F}));
  EXPECT_EQ(softmax({-most, -most}), (std::vector<float>{0.5F, 0.5F}));
}

}  // namespace
}  // namespace ctxgen::kernels
