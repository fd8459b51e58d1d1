#include "ctxgen/kernels/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kUntouched = -77;

using Floats = std::vector<float>;

Floats uniform(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Floats list(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  for (float& x : list) x = distribution(generator);
  return list;
}

Windows windows_of(std::int64_t images, Windows::Pair size, Windows::Pair pad, Windows::Pair after,
                   std::int64_t channels, std::int64_t extra = 0) {
  Windows w{.images = images, .size = size, .kernel = {3, 3}, .pad = pad, .channels = channels};
  w.pitch = channels + extra;
  for (const std::size_t axis : {0U, 1U})
    w.result[axis] = std::max<std::int64_t>(size[axis] + pad[axis] + after[axis] - 2, 0);
  return w;
}

/// A convolution with the memory that it needs and not a float more.
struct Trial {
  Windows windows;
  std::int64_t columns = 1, block = 16, extra_pitch = 0;
  bool bias = false, start = false;
  float low = -kInfinity, high = kInfinity;

  Floats src = {}, weights = {}, biases = {}, starts = {},
         panels = {};  // weights: [9 channels, columns]
  PanelProduct product = {};

  void prepare() {
    const std::int64_t rows = windows.rows();
    const std::int64_t pixels = windows.images * windows.size[0] * windows.size[1];
    src = uniform(pixels == 0 ? 0 : (pixels - 1) * windows.pitch + windows.channels, 1);
    weights = uniform(windows.depth() * columns, 2);
    biases = uniform(columns, 3);
    const std::int64_t pitch = columns + extra_pitch;
    starts = uniform(rows == 0 ? 0 : (rows - 1) * pitch + columns, 4);
    product.windows = windows;
    product.src = src.data();
    product.finish = {.bias = bias ? biases.data() : nullptr,
                      .start = start ? starts.data() : nullptr,
                      .start_pitch = pitch,
                      .low = low,
                      .high = high};
    product.result_pitch = pitch;
    pack();
  }

  void pack() {
    const std::int64_t depth = windows.depth();
    PackedMatrix& matrix = product.matrix;
    matrix = {nullptr, PanelType::kFloat, columns, block, depth * block};
    const std::int64_t count = (columns + block - 1) / block;
    panels.assign(static_cast<std::size_t>(count * matrix.panel_elements), 0);
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t n = 0; n < columns; ++n)
        panels[static_cast<std::size_t>(n / block * matrix.panel_elements + k * block +
                                        n % block)] =
            weights[static_cast<std::size_t>(k * columns + n)];
    matrix.panels = reinterpret_cast<const std::byte*>(panels.data());
  }

  [[nodiscard]] WinogradParts parts(int threads) const {
    return winograd_parts(windows, product.matrix, threads);
  }

  void run_into(float* out, const WinogradParts& parts) {
    product.result = out;
    const std::uint64_t bytes = winograd_scratch_bytes(parts, product.matrix).value();
    // Memory that has been used before.
    Floats scratch(static_cast<std::size_t>(bytes / sizeof(float)) + 16, kNan);
    auto* at = scratch.data();
    while (reinterpret_cast<std::uintptr_t>(at) % 64 != 0) ++at;
    for (std::int64_t i = 0; i < parts.count(); ++i) multiply_winograd(product, parts, i, at);
  }
  Floats run(const WinogradParts& parts) {
    Floats out(starts.size(), kUntouched);
    run_into(out.data(), parts);
    return out;
  }
  Floats run() { return run(parts(1)); }

  /// By multiply_panels().
  Floats chains() {
    Floats out(starts.size(), kUntouched);
    product.result = out.data();
    const ProductParts all = product_parts(windows, product.matrix, 1);
    for (std::int64_t i = 0; i < all.count(); ++i) multiply_panels(product, all.part(i));
    return out;
  }

  /// What a position of the source is worth to a channel; 0 outside.
  [[nodiscard]] double pixel(std::int64_t image, std::int64_t y, std::int64_t x,
                             std::int64_t channel) const {
    const Windows& w = windows;
    if (y < 0 || x < 0 || y >= w.size[0] || x >= w.size[1]) return 0;
    return src[static_cast<std::size_t>(((image * w.size[0] + y) * w.size[1] + x) * w.pitch +
                                        channel)];
  }

  /// The sum of a pixel's products; the absolute ones', and these over its whole tile, each with its channel's largest weight.
  struct Sum {
    double value = 0, own_terms = 0, terms = 0;
  };
  [[nodiscard]] Sum sum(std::int64_t row, std::int64_t n) const {
    const Windows& w = windows;
    const std::int64_t line = row / w.result[1] % w.result[0], column = row % w.result[1];
    const std::int64_t image = row / w.result[1] / w.result[0];
    Sum sum;
    for (std::int64_t c = 0; c < w.channels; ++c) {
      double largest = 0, near = 0;
      for (std::int64_t k = 0; k < 9; ++k) {
        const double weight = weights[static_cast<std::size_t>((k * w.channels + c) * columns + n)];
        const double term =
            weight * pixel(image, line - w.pad[0] + k / 3, column - w.pad[1] + k % 3, c);
        sum.value += term;
        sum.own_terms += std::fabs(term);
        largest = std::max(largest, std::fabs(weight));
      }
      for (std::int64_t i = 0; i < 16; ++i)
        near += std::fabs(
            pixel(image, line / 2 * 2 - w.pad[0] + i / 4, column / 2 * 2 - w.pad[1] + i % 4, c));
      sum.terms += largest * near;
    }
    return sum;
  }

  void check(const Floats& out, const std::string& name) const {
    for (std::int64_t row = 0; row < windows.rows(); ++row)
      for (std::int64_t n = 0; n < product.result_pitch; ++n) {
        const auto at = static_cast<std::size_t>(row * product.result_pitch + n);
        if (at >= out.size()) continue;
        if (n >= columns) {
          ASSERT_EQ(out[at], kUntouched) << name << ": wrote behind row " << row;
          continue;
        }
        Sum exact = sum(row, n);
        for (const double add :
             {start ? starts[at] : 0.0F, bias ? biases[static_cast<std::size_t>(n)] : 0.0F}) {
          exact.value += add;
          exact.terms += std::fabs(add);
        }
        exact.value = std::clamp<double>(exact.value, low, high);
        test::note_error(double{out[at]} - exact.value, exact.terms);
        // Sums of channels round as a random walk does, those of a tile and of weights a few times.
        const double roundings = 2 * std::sqrt(static_cast<double>(windows.channels)) + 8;
        ASSERT_NEAR(out[at], exact.value, roundings * exact.terms / (1 << 24))
            << name << ": row " << row << " column " << n;
      }
  }
};

TEST(Winograd, IsCloseToDoublePrecision) {
  std::mt19937 random(5);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (int i = 0; i < 100; ++i) {
    Trial trial{
        .windows = windows_of(1 + up_to(2), {1 + up_to(11), 1 + up_to(11)}, {up_to(2), up_to(2)},
                              {up_to(2), up_to(2)}, i % 7 == 0 ? 100 + up_to(100) : 1 + up_to(30),
                              i % 3 == 0 ? 5 : 0),
        .columns = 1 + up_to(i % 5 == 0 ? 140 : 24),
        .block = 16 * (1 + up_to(3)),
        .extra_pitch = up_to(1) * 3,
        .bias = up_to(1) == 1,
        .start = up_to(1) == 1};
    if (up_to(1) == 1) trial.low = 0;
    if (up_to(1) == 1) trial.high = 0.5;
    trial.prepare();
    trial.check(trial.run(), "case " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

/// More tiles than are transformed at once, of few and of many channels.
TEST(Winograd, OfManyTilesIsCloseToDoublePrecision) {
  for (const std::int64_t channels : {8, 16, 300, 600}) {
    const std::int64_t size = channels <= 16 ? 66 : 13;
    Trial trial{.windows = windows_of(2, {size, size + 1}, {1, 1}, {1, 1}, channels),
                .columns = 7,
                .bias = true};
    trial.prepare();
    trial.check(trial.run(), std::to_string(channels) + " channels");
    if (HasFatalFailure()) return;
  }
}

/// Root mean square of errors in units of 2^-24 of the sums of absolute products.
double error_of(const Trial& trial, const Floats& out, bool note) {
  double squares = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const Trial::Sum exact = trial.sum(at / trial.columns, at % trial.columns);
    const double error = double{out[i]} - exact.value;
    if (note) test::note_error(error, exact.own_terms);
    squares += std::pow(error / exact.own_terms * (1 << 24), 2);
  }
  return std::sqrt(squares / static_cast<double>(out.size()));
}

/// Its chains are a ninth as long, which is worth what the sums around them lose.
TEST(Winograd, ErrsNotMoreThanTwiceAsMuchAsChains) {
  for (const std::int64_t channels : {16, 64, 256}) {
    Trial trial{.windows = windows_of(1, {14, 14}, {1, 1}, {1, 1}, channels), .columns = 8};
    trial.prepare();
    const double own = error_of(trial, trial.run(), true);
    const double chains = error_of(trial, trial.chains(), false);
    RecordProperty("channels_" + std::to_string(channels),
                   std::to_string(own) + " of " + std::to_string(chains));
    EXPECT_LE(own, 2 * chains) << channels << " channels";
  }
}

TEST(Winograd, IsTheSameByAnyParts) {
  for (const std::int64_t block : {16, 32, 48, 64}) {
    Trial trial{.windows = windows_of(3, {11, 9}, {1, 1}, {1, 1}, 150),
                .columns = 200,
                .block = block,
                .bias = true,
                .start = true};
    trial.prepare();
    const Floats whole = trial.run();
    for (const int threads : {2, 3, 8, 64}) EXPECT_EQ(trial.run(trial.parts(threads)), whole);
    WinogradParts parts = trial.parts(1);
    for (const std::int64_t lines : {1, 2, 5, 7, 100})
      for (const std::int64_t columns : {192, 384}) {
        parts.part_lines = lines;
        parts.part_columns = columns;
        EXPECT_EQ(trial.run(parts), whole) << lines << " lines, block " << block;
      }
  }
}

TEST(Winograd, PartsCoverTheResultOnce) {
  for (const Windows::Pair size :
       {Windows::Pair{0, 5}, {1, 1}, {7, 7}, {13, 1}, {56, 57}, {640, 480}})
    for (const std::int64_t channels : {1, 64, 600})
      for (const std::int64_t columns : {1, 64, 100, 512})
        for (const int threads : {1, 2, 3, 8, 64}) {
          const Windows windows = windows_of(3, size, {1, 1}, {1, 1}, channels);
          const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, 64, 9 * 64 * channels};
          const WinogradParts parts = winograd_parts(windows, matrix, threads);
          std::int64_t covered = 0;
          for (std::int64_t i = 0; i < parts.count(); ++i) {
            const ProductPart part = parts.part(i);
            ASSERT_GT(part.rows, 0);
            ASSERT_EQ(part.column % 64, 0);
            ASSERT_LE(part.row + part.rows, windows.rows());
            ASSERT_LE(part.column + part.columns, columns);
            covered += part.rows * part.columns;
          }
          ASSERT_EQ(covered, windows.rows() * columns);
        }
}

TEST(Winograd, MayStartFromItsResult) {
  Trial trial{.windows = windows_of(1, {9, 9}, {1, 1}, {1, 1}, 40), .columns = 50, .start = true};
  trial.prepare();
  trial.src[40 * 30] = kNan;  // a tile that multiply_panels() computes
  const Floats expected = trial.run();
  Floats in_place = trial.starts;
  trial.product.finish.start = in_place.data();
  trial.run_into(in_place.data(), trial.parts(1));
  ASSERT_EQ(in_place.size(), expected.size());
  EXPECT_EQ(std::memcmp(in_place.data(), expected.data(), in_place.size() * sizeof(float)), 0);
}

/// Elements are finite where chains are, and the same where these are not.
void expect_as_chains(Trial& trial, const std::string& name) {
  const Floats out = trial.run(), expected = trial.chains();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::isfinite(expected[i]))
      ASSERT_NEAR(out[i], expected[i], 1e-3 * (1 + std::fabs(expected[i]))) << name << ", " << i;
    else if (std::isnan(expected[i]))
      ASSERT_TRUE(std::isnan(out[i])) << name << ", " << i;
    else
      ASSERT_EQ(out[i], expected[i]) << name << ", " << i;
  }
}

TEST(Winograd, KeepsNanAndInfinityToTheWindowsThatHaveThem) {
  for (const float value : {kNan, kInfinity, -kInfinity})
    for (const std::int64_t place : {0, 17, 30, 40, 63}) {
      Trial trial{
          .windows = windows_of(1, {8, 8}, {1, 1}, {1, 1}, 20), .columns = 40, .bias = true};
      trial.prepare();
      trial.src[static_cast<std::size_t>(place * 20 + 7)] = value;
      const Floats out = trial.run();
      const auto not_finite = std::ranges::count_if(out, [](float x) { return !std::isfinite(x); });
      EXPECT_GT(not_finite, 0);
      EXPECT_LE(not_finite, 9 * 40);
      expect_as_chains(trial, "pixel " + std::to_string(place));
    }
}

TEST(Winograd, KeepsNanAndInfinityOfWeightsToTheirColumns) {
  for (const float value : {kNan, kInfinity, -kInfinity}) {
    Trial trial{.windows = windows_of(1, {7, 5}, {1, 1}, {1, 1}, 20), .columns = 90};
    trial.prepare();
    trial.weights[static_cast<std::size_t>((3 * 20 + 5) * 90 + 71)] = value;
    trial.pack();
    expect_as_chains(trial, "a weight");
  }
}

TEST(Winograd, SumsThatOverflowAreThoseOfChains) {
  Trial trial{.windows = windows_of(1, {6, 6}, {1, 1}, {1, 1}, 1), .columns = 20};
  trial.prepare();
  // Sums of pixels overflow, those of an element do not.
  for (float& x : trial.src) x = x < 0 ? -3e38F : 3e38F;
  for (float& x : trial.weights) x *= 1e-3F;
  trial.pack();
  const Floats out = trial.run(), expected = trial.chains();
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_TRUE(std::isfinite(out[i]));
    ASSERT_NEAR(out[i] / 3e38F, expected[i] / 3e38F, 1e-5F);
  }
}

TEST(Winograd, OfBoundsKeepsNan) {
  Trial trial{
      .windows = windows_of(1, {4, 4}, {1, 1}, {1, 1}, 4), .columns = 4, .low = 0, .high = 6};
  trial.prepare();
  trial.src[0] = kNan;
  EXPECT_TRUE(std::isnan(trial.run()[0]));
}

}  // namespace
}  // namespace ctxgen::kernels
