#include "ctxgen/kernels/depthwise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "random_windows.h"
#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kUnit = 1.0 / (1 << 24);

using Floats = std::vector<float>;

/// A convolution with the memory that it needs and not a float more.
struct Trial {
  Windows windows;
  std::int64_t extra_pitch = 0, extra_weights = 0;
  bool bias = false, start = false;
  float low = -kInfinity, high = kInfinity;

  Floats src = {}, weights = {}, biases = {}, starts = {};
  Depthwise conv = {};

  void prepare(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto floats = [&](std::int64_t count) {
      Floats list(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
      for (float& x : list) x = uniform(random);
      return list;
    };
    const std::int64_t channels = windows.channels;
    const std::int64_t pixels = windows.images * windows.size[0] * windows.size[1];
    src = floats(pixels == 0 ? 0 : (pixels - 1) * windows.pitch + channels);
    conv.weight_pitch = channels + extra_weights;
    weights = floats((windows.kernel[0] * windows.kernel[1] - 1) * conv.weight_pitch + channels);
    biases = floats(channels);
    conv.result_pitch = channels + extra_pitch;
    starts = floats((windows.rows() - 1) * conv.result_pitch + channels);
    conv.windows = windows;
    conv.src = src.data();
    conv.weights = weights.data();
    conv.finish = {.bias = bias ? biases.data() : nullptr,
                   .start = start ? starts.data() : nullptr,
                   .start_pitch = conv.result_pitch,
                   .low = low,
                   .high = high};
  }

  /// By the parts that the kernel wants, or by parts of so many lines and channels.
  Floats run(std::int64_t part_lines = 0, std::int64_t part_channels = 1) {
    Floats out(starts.size(), -77);
    conv.result = out.data();
    DepthwiseParts parts = depthwise_parts(windows, 8);
    if (part_lines > 0) {
      parts.part_lines = part_lines;
      parts.part_channels = part_channels;
    }
    for (std::int64_t i = 0; i < parts.count(); ++i) convolve_depthwise(conv, parts.part(i));
    return out;
  }

  struct Sum {
    double value = 0, size = 0;  // of the sum; of its absolute terms
    void add(double term) {
      value += term;
      size += std::fabs(term);
    }
  };
  Sum sum_of(std::int64_t row, std::int64_t channel) const {
    const Windows& w = windows;
    Sum sum;
    const std::int64_t image = row / w.result[1] / w.result[0];
    for (std::int64_t i = 0; i < w.kernel[0] * w.kernel[1]; ++i) {
      const std::int64_t x =
          row % w.result[1] * w.stride[1] - w.pad[1] + i % w.kernel[1] * w.dilation[1];
      const std::int64_t y = row / w.result[1] % w.result[0] * w.stride[0] - w.pad[0] +
                             i / w.kernel[1] * w.dilation[0];
      if (x < 0 || x >= w.size[1] || y < 0 || y >= w.size[0]) continue;
      const std::int64_t pixel = (image * w.size[0] + y) * w.size[1] + x;
      sum.add(static_cast<double>(src[static_cast<std::size_t>(pixel * w.pitch + channel)]) *
              weights[static_cast<std::size_t>(i * conv.weight_pitch + channel)]);
    }
    return sum;
  }

  /// In units of 2^-24 of the sum of absolute values.
  void check(const Floats& out, const std::string& name) const {
    const double roundings =
        2.0 * std::sqrt(static_cast<double>(windows.kernel[0] * windows.kernel[1] + 2)) + 2;
    for (std::size_t at = 0; at < out.size(); ++at) {
      const auto row = static_cast<std::int64_t>(at) / conv.result_pitch;
      const auto channel = static_cast<std::int64_t>(at) % conv.result_pitch;
      if (channel >= windows.channels) {
        ASSERT_EQ(out[at], -77) << name << ": wrote behind row " << row;
        continue;
      }
      Sum sum = sum_of(row, channel);
      if (start) sum.add(starts[at]);
      if (bias) sum.add(biases[static_cast<std::size_t>(channel)]);
      test::note_error(double{out[at]} - std::clamp<double>(sum.value, low, high), sum.size);
      ASSERT_NEAR(out[at], std::clamp<double>(sum.value, low, high), roundings * kUnit * sum.size)
          << name << ": row " << row << " channel " << channel;
    }
  }
};

TEST(Depthwise, IsCloseToDoublePrecision) {
  std::mt19937 random(9);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (std::uint32_t i = 0; i < 300; ++i) {
    Windows w{.images = up_to(2) + 1, .channels = 1 + up_to(40)};
    if (i % 5 == 0) w.channels = 64 * (1 + up_to(3));
    const std::int64_t size = i % 4 == 0 ? 41 : 14;
    test::choose_axes(
        w, {.kernel = 7, .size = size, .stride = 3, .dilation = 3, .pad = 8, .after = 8}, up_to);
    w.pitch = w.channels + (i % 3 == 0 ? 4 : 0);
    Trial trial{.windows = w,
                .extra_pitch = up_to(1) * 5,
                .extra_weights = up_to(7),
                .bias = up_to(1) == 1,
                .start = up_to(1) == 1};
    if (up_to(2) == 0) trial.low = 0;
    if (up_to(2) == 0) trial.high = 0.5;
    trial.prepare(i);
    trial.check(trial.run(), "case " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

Trial two_images() {
  return {.windows = {.images = 2,
                      .size = {11, 21},
                      .result = {11, 21},
                      .kernel = {3, 5},
                      .pad = {1, 2},
                      .channels = 100,
                      .pitch = 100},
          .bias = true,
          .start = true};
}

TEST(Depthwise, IsTheSameByAnyParts) {
  Trial trial = two_images();
  trial.prepare(1);
  const Floats whole = trial.run(22, 100);
  for (const std::int64_t lines : {1, 2, 5, 11, 14})
    for (const std::int64_t channels : {1, 7, 16, 64}) EXPECT_EQ(trial.run(lines, channels), whole);
}

TEST(Depthwise, MayStartFromItsResult) {
  Trial trial = two_images();
  trial.prepare(2);
  const Floats expected = trial.run();
  Floats in_place = trial.starts;
  trial.conv.finish.start = trial.conv.result = in_place.data();
  convolve_depthwise(trial.conv, {0, 22, 0, 100});
  EXPECT_EQ(in_place, expected);
}

TEST(Depthwise, KeepsNanAndInfinity) {
  Trial trial{.windows = {.images = 1,
                          .size = {1, 3},
                          .result = {1, 3},
                          .kernel = {1, 1},
                          .channels = 20,
                          .pitch = 20},
              .bias = true,
              .low = 0,
              .high = 6};
  trial.prepare(3);
  std::ranges::fill(trial.weights, 1.0F);
  for (std::size_t c = 0; c < 20; ++c) {
    trial.src[c] = std::numeric_limits<float>::quiet_NaN();
    trial.src[20 + c] = kInfinity;
    trial.src[40 + c] = -kInfinity;
  }
  const Floats out = trial.run();
  for (std::size_t c = 0; c < 20; ++c) {
    EXPECT_TRUE(std::isnan(out[c]));
    EXPECT_EQ(out[20 + c], 6);
    EXPECT_EQ(out[40 + c], 0);
  }
}

TEST(Depthwise, OfImagesWithoutPixelsIsItsStart) {
  Trial trial{.windows = {.images = 1,
                          .size = {0, 3},
                          .result = {2, 3},
                          .kernel = {3, 3},
                          .pad = {2, 1},
                          .channels = 20,
                          .pitch = 20},
              .start = true};
  trial.prepare(4);
  EXPECT_EQ(trial.run(), trial.starts);
}

TEST(Depthwise, PartsCoverTheResultOnce) {
  for (const std::int64_t lines : {0, 1, 7, 28, 112, 100000})
    for (const std::int64_t columns : {1, 7, 112, 5000})
      for (const std::int64_t channels : {1, 16, 100, 1152})
        for (const std::int64_t wanted : {1, 16}) {
          const Windows windows{.size = {lines, columns},
                                .result = {lines, columns},
                                .kernel = {3, 3},
                                .pad = {1, 1},
                                .channels = channels,
                                .pitch = channels};
          const DepthwiseParts parts = depthwise_parts(windows, wanted);
          std::int64_t covered = 0;
          for (std::int64_t i = 0; i < parts.count(); ++i) {
            const DepthwisePart part = parts.part(i);
            ASSERT_GT(part.lines, 0);
            ASSERT_GT(part.channels, 0);
            ASSERT_LE(part.line + part.lines, lines);
            ASSERT_LE(part.channel + part.channels, channels);
            covered += part.lines * part.channels;
          }
          EXPECT_EQ(covered, lines * channels);
        }
}

}  // namespace
}  // namespace ctxgen::kernels
