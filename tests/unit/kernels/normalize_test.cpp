#include "ctxgen/kernels/normalize.h"

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
constexpr double kUnit = std::numeric_limits<float>::epsilon();

using Floats = std::vector<float>;
using test::random_floats;

struct Row {
  Floats in = {}, scale = {}, shift = {};
  float epsilon = 1e-5F;
  bool centred = true;
};

Floats normalised(const Row& row) {
  Floats out(row.in.size() + 1, -77);
  const NormRows arrays{.rows = 1,
                        .width = std::ssize(row.in),
                        .epsilon = row.epsilon,
                        .in = row.in.data(),
                        .scale = row.scale.empty() ? nullptr : row.scale.data(),
                        .shift = row.shift.empty() ? nullptr : row.shift.data(),
                        .out = out.data()};
  (row.centred ? layer_norm : rms_norm)(arrays);
  EXPECT_EQ(out.back(), -77) << "wrote beyond " << row.in.size();
  out.pop_back();
  return out;
}

std::vector<double> exact(const Row& row, bool shifted) {
  const auto n = static_cast<double>(row.in.size());
  double mean = 0, rest = 0, squares = 0;
  for (const float x : row.in) mean += row.centred ? double{x} / n : 0;
  for (const float x : row.in) rest += row.centred ? (double{x} - mean) / n : 0;
  mean += rest;
  for (const float x : row.in) squares += (double{x} - mean) * (double{x} - mean) / n;
  std::vector<double> out;
  for (std::size_t i = 0; i < row.in.size(); ++i) {
    double y = (double{row.in[i]} - mean) / std::sqrt(squares + double{row.epsilon});
    if (!row.scale.empty()) y *= double{row.scale[i]};
    out.push_back(shifted && !row.shift.empty() ? y + double{row.shift[i]} : y);
  }
  return out;
}

/// The largest difference from double precision in the units that the header names.
double worst_ulp(const Row& row) {
  const Floats out = normalised(row);
  const std::vector<double> expected = exact(row, true), unshifted = exact(row, false);
  double worst = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double shift = row.shift.empty() ? 0 : std::fabs(double{row.shift[i]});
    const double scale = row.scale.empty() ? 1 : std::fabs(double{row.scale[i]});
    const double unit = kUnit * (std::max(std::fabs(unshifted[i]), scale / 8) + shift);
    const double error = std::fabs(double{out[i]} - expected[i]);
    if (error > 0) worst = std::max(worst, error / unit);
    if (error != error) return kNan;
  }
  return worst;
}

constexpr std::size_t kWidths[] = {1,  2,  3,   7,   8,   15,  16,  17,   31,   33,   64,
                                   65, 96, 100, 127, 384, 512, 768, 1000, 1024, 4096, 50176};

TEST(NormalizeRow, IsCloseToDoublePrecision) {
  double worst[2] = {};
  for (const bool centred : {true, false})
    for (const std::size_t n : kWidths)
      for (const unsigned form : {0U, 1U, 2U, 3U}) {
        Row row{.in = random_floats(n, 0.5F, 3, 5), .centred = centred};
        if ((form & 1) != 0) row.scale = random_floats(n, 1, 0.5F, 6);
        if ((form & 2) != 0) row.shift = random_floats(n, 0, 1, 7);
        const double ulp = worst_ulp(row);
        worst[centred ? 0 : 1] = std::max(worst[centred ? 0 : 1], ulp);
        EXPECT_LE(ulp, 3) << n << ", form " << form;
      }
  RecordProperty("layer_norm_ulp", std::to_string(worst[0]));
  RecordProperty("rms_norm_ulp", std::to_string(worst[1]));
}

/// A mean far from zero: its rounding must not be in the result.
TEST(NormalizeRow, OfLargeMeans) {
  double worst = 0;
  for (const float mean : {10.0F, 1e3F, -1e4F, 1e6F})
    for (const std::size_t n : kWidths) {
      if (n < 7) continue;  // the differences of a few numbers may all be rounding
      const double ulp = worst_ulp({.in = random_floats(n, mean, 1, 3)});
      worst = std::max(worst, ulp);
      EXPECT_LE(ulp, 3) << n << " around " << mean;
    }
  RecordProperty("ulp", std::to_string(worst));
}

TEST(NormalizeRow, OfConstantRowsIsTheShift) {
  for (const float x : {0.0F, 0.3F, -1e6F, 1e-30F})
    for (const std::size_t n : {1, 2, 7, 64, 333})
      for (const float epsilon : {1e-5F, 1e-12F}) {
        const Row row{.in = Floats(n, x), .shift = Floats(n, 2.5F), .epsilon = epsilon};
        for (const float y : normalised(row)) EXPECT_EQ(y, 2.5F) << x << " " << n;
      }
}

/// Squares that float cannot hold, at both ends.
TEST(NormalizeRow, OfVeryLargeAndVerySmallNumbers) {
  for (const float size : {1e-38F, 1e-25F, 1e-19F, 1e18F, 1e25F, 3e37F})
    for (const bool centred : {true, false})
      for (const std::size_t n : {5, 64, 100}) {
        const Row row{.in = random_floats(n, 0, size, 8), .epsilon = 0, .centred = centred};
        EXPECT_LE(worst_ulp(row), 3) << size << " " << n;
      }
}

TEST(NormalizeRow, OfNanAndInfinity) {
  for (const std::size_t n : {1, 5, 40})
    for (std::size_t at = 0; at < n; ++at) {
      Floats in(n, 1);
      in[at] = kNan;
      for (const float y : normalised({.in = in})) EXPECT_TRUE(std::isnan(y));
      for (const float y : normalised({.in = in, .centred = false})) EXPECT_TRUE(std::isnan(y));
      for (const float infinity : {kInfinity, -kInfinity}) {
        in[at] = infinity;
        for (const float y : normalised({.in = in})) EXPECT_TRUE(std::isnan(y));
        const Floats rms = normalised({.in = in, .shift = Floats(n, 3), .centred = false});
        for (std::size_t i = 0; i < n; ++i)
          EXPECT_TRUE(i == at ? std::isnan(rms[i]) : rms[i] == 3) << rms[i];
      }
    }
}

TEST(NormalizeRow, OfNothing) {
  EXPECT_TRUE(normalised({}).empty());
  EXPECT_TRUE(normalised({.centred = false}).empty());
}

/// in + residual + bias, and its normalised form, wherever the results go.
TEST(NormalizeRow, AddsBeforeItNormalises) {
  for (const std::size_t n : {1, 9, 64, 100}) {
    const Floats in = random_floats(n, 0, 1, 1), residual = random_floats(n, 1, 2, 2),
                 bias = random_floats(n, 0, 1, 3);
    Floats sum(n);
    for (std::size_t i = 0; i < n; ++i) sum[i] = in[i] + residual[i] + bias[i];
    for (const bool centred : {true, false}) {
      const Floats expected = normalised({.in = sum, .centred = centred});
      const auto normalise = centred ? layer_norm : rms_norm;
      Floats first = in, second = residual, out(n), kept(n);
      const auto check = [&](NormRows row) {
        row.rows = 1;
        row.width = std::ssize(in);
        row.epsilon = 1e-5F;
        row.bias = bias.data();
        normalise(row);
        for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(row.out[i], expected[i]) << n;
        for (std::size_t i = 0; row.sum != nullptr && i < n; ++i)
          EXPECT_EQ(row.sum == row.out ? sum[i] : row.sum[i], sum[i]) << n;
        first = in;
        second = residual;
      };
      check({.in = first.data(), .residual = second.data(), .out = out.data()});
      check({.in = first.data(), .residual = second.data(), .sum = kept.data(), .out = out.data()});
      check(
          {.in = first.data(), .residual = second.data(), .sum = second.data(), .out = out.data()});
      check({.in = first.data(), .residual = second.data(), .out = first.data()});
      check({.in = first.data(),
             .residual = second.data(),
             .sum = kept.data(),
             .out = second.data()});
    }
  }
}

/// Rows of a matrix are split among threads: each must not depend on the others, or on where it is.
TEST(NormalizeRow, DoesNotDependOnItsAddress) {
  const Floats in = random_floats(333, 2, 1, 4);
  const Floats expected = normalised({.in = in});
  for (std::size_t offset = 0; offset < 17; ++offset) {
    Floats moved(offset, 0);
    moved.insert(moved.end(), in.begin(), in.end());
    Floats out(333);
    layer_norm({.rows = 1,
                .width = 333,
                .epsilon = 1e-5F,
                .in = moved.data() + offset,
                .out = out.data()});
    EXPECT_EQ(out, expected);
  }
}

TEST(NormalizeRow, OfSeveralRowsIsThatOfEach) {
  const Floats in = random_floats(60, 2, 1, 4), residual = random_floats(60, 0, 1, 5),
               bias = random_floats(20, 0, 1, 6);
  for (const auto normalise : {layer_norm, rms_norm}) {
    Floats together(60), apart(60), sums(60), sums_apart(60);
    NormRows rows{.rows = 3,
                  .width = 20,
                  .epsilon = 1e-5F,
                  .in = in.data(),
                  .residual = residual.data(),
                  .bias = bias.data(),
                  .sum = sums.data(),
                  .scale = bias.data(),
                  .shift = bias.data(),
                  .out = together.data()};
    normalise(rows);
    rows.rows = 1;
    for (std::size_t at = 0; at < 60; at += 20) {
      rows.in = in.data() + at;
      rows.residual = residual.data() + at;
      rows.sum = sums_apart.data() + at;
      rows.out = apart.data() + at;
      normalise(rows);
    }
    EXPECT_EQ(together, apart);
    EXPECT_EQ(sums, sums_apart);
  }
}

}  // namespace
}  // namespace ctxgen::kernels
