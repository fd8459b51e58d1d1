#include "ctxgen/kernels/byte_depthwise.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ctxgen::kernels {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// A convolution over the whole ranges of bytes with the memory that it needs and not a byte more.
struct Trial {
  Windows windows;
  bool is_signed = false, zero = true, per_channel = true, bias = true;

  Bytes src = {}, weights = {};
  std::vector<float> scales = {}, biases = {};
  std::uint8_t zero_byte = 0;
  float a_scale = 0.37F;
  ByteDepthwise conv = {};

  void prepare(unsigned seed) {
    windows.pitch = windows.channels;
    std::mt19937 random(seed);
    const auto bytes = [&](std::int64_t count) {
      Bytes list(static_cast<std::size_t>(count));
      for (std::uint8_t& byte : list) byte = static_cast<std::uint8_t>(random());
      return list;
    };
    const auto channels = static_cast<std::size_t>(windows.channels);
    src = bytes(windows.images * windows.size[0] * windows.size[1] * windows.channels);
    weights = bytes(windows.depth());
    std::uniform_real_distribution<float> some(0.001F, 0.1F);
    scales.resize(channels);
    biases.resize(channels);
    for (float& x : scales) x = some(random);
    for (float& x : biases) x = some(random) * 1000 - 50;
    zero_byte = static_cast<std::uint8_t>(random());
    conv = {.windows = windows,
            .is_signed = is_signed,
            .src = src.data(),
            .zero = zero ? &zero_byte : nullptr,
            .weights = reinterpret_cast<const std::int8_t*>(weights.data()),
            .a_scale = &a_scale,
            .b_scales = scales.data(),
            .scale_per_channel = per_channel,
            .bias = bias ? biases.data() : nullptr};
  }

  [[nodiscard]] std::int64_t number(std::uint8_t byte) const {
    return is_signed ? static_cast<std::int8_t>(byte) : byte;
  }
  [[nodiscard]] std::int64_t sum(std::int64_t pixel, std::int64_t channel) const {
    const Windows& w = windows;
    const std::int64_t column = pixel % w.result[1], line = pixel / w.result[1] % w.result[0];
    const std::int64_t image = pixel / w.result[1] / w.result[0];
    std::int64_t total = 0;
    for (std::int64_t p = 0; p < w.kernel[0] * w.kernel[1]; ++p) {
      const std::int64_t y = line * w.stride[0] - w.pad[0] + p / w.kernel[1] * w.dilation[0];
      const std::int64_t x = column * w.stride[1] - w.pad[1] + p % w.kernel[1] * w.dilation[1];
      if (y < 0 || y >= w.size[0] || x < 0 || x >= w.size[1]) continue;
      const std::int64_t at = ((image * w.size[0] + y) * w.size[1] + x) * w.channels + channel;
      total +=
          (number(src[static_cast<std::size_t>(at)]) - (zero ? number(zero_byte) : 0)) *
          static_cast<std::int8_t>(weights[static_cast<std::size_t>(p * w.channels + channel)]);
    }
    return total;
  }

  void run(Workers& workers, int threads) {
    const ByteDepthwiseForm form = byte_depthwise_form(windows, threads).value();
    const std::size_t bytes = (form.scratch_bytes() + 63) / 64 * 64;
    const std::unique_ptr<void, decltype(&std::free)> scratch(std::aligned_alloc(64, bytes),
                                                              &std::free);
    conv.scratch = static_cast<std::byte*>(scratch.get());
    byte_depthwise(conv, form, workers);
  }
};

std::vector<float> reals(Trial& trial, Workers& workers, int threads) {
  std::vector<float> out(static_cast<std::size_t>(trial.windows.rows() * trial.windows.channels));
  trial.conv.out = out.data();
  trial.run(workers, threads);
  return out;
}

void expect_exact(Trial trial, unsigned seed) {
  trial.prepare(seed);
  OneThread one;
  const std::vector<float> out = reals(trial, one, 1);
  const std::int64_t channels = trial.windows.channels;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), c = at % channels;
    const auto channel = static_cast<std::size_t>(c);
    const float factor = trial.a_scale * trial.scales[trial.per_channel ? channel : 0];
    const volatile float scaled = static_cast<float>(trial.sum(at / channels, c)) * factor;
    ASSERT_EQ(out[i], trial.bias ? scaled + trial.biases[channel] : scaled) << i;
  }
  StartedThreads threads(3);
  EXPECT_EQ(reals(trial, threads, 3), out);
}

TEST(ByteDepthwise, IsExactInAllForms) {
  unsigned seed = 0;
  for (const bool is_signed : {false, true})
    for (const bool zero : {false, true})
      for (const bool plain : {false, true})
        for (const std::int64_t channels : {1, 7, 8, 33, 64})
          expect_exact({.windows = {.size = {9, 11},
                                    .result = {9, 11},
                                    .kernel = {3, 3},
                                    .pad = {1, 1},
                                    .channels = channels},
                        .is_signed = is_signed,
                        .zero = zero,
                        .per_channel = !plain,
                        .bias = !plain},
                       ++seed);
}

TEST(ByteDepthwise, IsExactInAllWindows) {
  expect_exact({{.images = 3,
                 .size = {40, 50},
                 .result = {20, 25},
                 .kernel = {3, 3},
                 .stride = {2, 2},
                 .pad = {1, 1},
                 .channels = 40}},
               1);
  expect_exact(
      {{.size = {12, 12}, .result = {8, 4}, .kernel = {5, 5}, .stride = {1, 2}, .channels = 16}},
      2);
  expect_exact({{.size = {20, 9},
                 .result = {20, 9},
                 .kernel = {3, 3},
                 .dilation = {4, 3},
                 .pad = {4, 3},
                 .channels = 24}},
               3);
  expect_exact({{.images = 2,
                 .size = {1, 60},
                 .result = {1, 58},
                 .kernel = {1, 7},
                 .pad = {0, 2},
                 .channels = 10}},
               4);
  // Windows that lie outside of the image as a whole, before and after it.
  expect_exact({{.size = {2, 2},
                 .result = {9, 9},
                 .kernel = {1, 1},
                 .stride = {1, 1},
                 .pad = {4, 3},
                 .channels = 5}},
               5);
  expect_exact({{.size = {3, 3},
                 .result = {2, 2},
                 .kernel = {1, 1},
                 .stride = {9, 9},
                 .pad = {4, 4},
                 .channels = 5}},
               6);
  // So many channels that a part is one line; the largest kernel.
  expect_exact({{.images = 2,
                 .size = {7, 30},
                 .result = {7, 30},
                 .kernel = {3, 3},
                 .pad = {1, 1},
                 .channels = 960}},
               7);
  expect_exact({{.size = {20, 40}, .result = {5, 9}, .kernel = {16, 32}, .channels = 8}}, 8);
}

/// Expects bytes to be those of the real numbers of the convolution, divided and rounded one by one.
void expect_bytes(Trial trial, const ByteSteps& steps, unsigned seed) {
  trial.prepare(seed);
  OneThread one;
  const std::vector<float> out = reals(trial, one, 1);
  Bytes bytes(out.size() + 1, 77);
  trial.conv.bytes = bytes.data();
  trial.conv.steps = steps;
  trial.run(one, 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const float held = std::clamp(out[i] / steps.scale, static_cast<float>(steps.least),
                                  static_cast<float>(steps.most));
    const int expected = static_cast<int>(std::nearbyint(held)) + steps.zero;
    ASSERT_EQ(bytes[i], static_cast<std::uint8_t>(expected)) << i;
  }
  EXPECT_EQ(bytes.back(), 77);
  StartedThreads threads(3);
  Bytes again(bytes.size(), 77);
  trial.conv.bytes = again.data();
  trial.run(threads, 3);
  EXPECT_EQ(again, bytes);
}

TEST(ByteDepthwise, MakesBytesOfItsResults) {
  for (const std::int64_t channels : {3, 16, 21})
    for (const ByteSteps& steps :
         {ByteSteps{.scale = 1.7F, .zero = 128, .least = -128, .most = 127},
          ByteSteps{.scale = 2.0F, .zero = -5, .least = 0, .most = 60}})
      expect_bytes({.windows = {.size = {9, 8},
                                .result = {9, 8},
                                .kernel = {3, 3},
                                .pad = {1, 1},
                                .channels = channels}},
                   steps, 9);
}

/// Lines of all lengths around three results and 63, by one step and by two, with steps so small that most results are beyond
/// the bounds.
TEST(ByteDepthwise, MakesBytesOfLinesOfAnyLength) {
  unsigned seed = 0;
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t columns : {1, 2, 3, 4, 5, 62, 63, 64, 129})
      for (const bool is_signed : {false, true})
        for (const float scale : {1.7F, 0.0004F})
          expect_bytes({.windows = {.images = 2,
                                    .size = {4, std::max<std::int64_t>(columns * stride - 2, 1)},
                                    .result = {3, columns},
                                    .kernel = {3, 3},
                                    .stride = {1, stride},
                                    .pad = {1, columns == 5 ? 3 : 1},
                                    .channels = columns < 60 ? 119 : 48},
                        .is_signed = is_signed},
                       {.scale = scale, .zero = 128, .least = -128, .most = 127}, ++seed);
}

// Half of these numbers are so near to the middle between two bytes that each rounding decides.
TEST(ByteDepthwise, RoundsEachOperation) {
  OneThread one;
  for (const std::int64_t channels : {16, 40, 144}) {
    Trial trial{.windows = {.size = {9, 9},
                            .result = {9, 9},
                            .kernel = {3, 3},
                            .pad = {1, 1},
                            .channels = channels}};
    trial.prepare(4);
    trial.a_scale = 1.0F;
    for (std::size_t c = 0; c < trial.scales.size(); ++c) {
      trial.scales[c] = 0.0005F;
      trial.biases[c] = 0.3F + 0.001F * static_cast<float>(c);
    }
    const ByteSteps steps{.scale = 0.001F, .zero = 100, .least = -100, .most = 155};
    trial.conv.steps = steps;
    for (std::uint8_t& weight : trial.weights) weight = weight % 3;
    Bytes bytes(static_cast<std::size_t>(trial.windows.rows() * channels));
    trial.conv.bytes = bytes.data();
    trial.run(one, 1);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const auto c = static_cast<std::size_t>(at % channels);
      const volatile float scaled =
          static_cast<float>(trial.sum(at / channels, at % channels)) * trial.scales[c];
      const volatile float real = scaled + trial.biases[c];
      const float held = std::clamp(real / steps.scale, static_cast<float>(steps.least),
                                    static_cast<float>(steps.most));
      ASSERT_EQ(bytes[i], static_cast<int>(std::nearbyint(held)) + steps.zero) << i;
    }
  }
}

TEST(ByteDepthwise, HoldsTheLargestSums) {
  Trial trial{.windows = {.size = {16, 32}, .result = {1, 1}, .kernel = {16, 32}, .channels = 8},
              .zero = false,
              .bias = false};
  trial.prepare(1);
  std::ranges::fill(trial.src, std::uint8_t{255});
  std::ranges::fill(trial.weights, std::uint8_t{128});
  OneThread one;
  trial.scales.assign(8, 1.0F);
  trial.conv.a_scale = nullptr;
  for (const float sum : reals(trial, one, 1)) EXPECT_EQ(sum, -512.0F * 255 * 128);
}

TEST(ByteDepthwise, HasNoFormForWhatMemoryCannotHold) {
  const std::int64_t much = std::int64_t{1} << 31;
  EXPECT_FALSE(byte_depthwise_form(
      {.size = {9, 9}, .result = {1, 1}, .kernel = {27, 19}, .channels = 8}, 1));
  EXPECT_FALSE(
      byte_depthwise_form({.size = {much, much}, .result = {much, much}, .channels = much}, 1));
  EXPECT_FALSE(byte_depthwise_form(
      {.size = {1, 1}, .result = {1, 1}, .kernel = {much, much}, .channels = 8}, 1));
  EXPECT_TRUE(byte_depthwise_form({.size = {9, 9}, .result = {9, 9}, .channels = 8}, 1000));
}

}  // namespace
}  // namespace ctxgen::kernels
