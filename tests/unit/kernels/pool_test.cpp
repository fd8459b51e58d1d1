#include "ctxgen/kernels/pool.h"

#include <algorithm>
#include <cmath>
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
constexpr double kUnit = 1.0 / (1 << 24);

using Floats = std::vector<float>;

/// A pool with the memory that it needs and not a float more.
struct Trial {
  Pool pool;
  Windows::Pair pad_end{0, 0};
  Floats src = {};

  void prepare(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const Windows& w = pool.windows;
    const std::int64_t pixels = w.images * w.size[0] * w.size[1];
    src.resize(static_cast<std::size_t>((pixels - 1) * w.pitch + w.channels));
    for (float& x : src) x = uniform(random);
    for (const std::size_t axis : {0U, 1U}) pool.counted[axis] = w.size[axis] + pad_end[axis];
  }

  Floats run(std::int64_t lines_at_once = 1000) {
    const Windows& w = pool.windows;
    Floats out(static_cast<std::size_t>(w.rows() * w.channels), -77);
    pool.src = src.data();
    pool.result = out.data();
    const std::int64_t lines = w.images * w.result[0];
    for (std::int64_t i = 0; i < lines; i += lines_at_once)
      pool_lines(pool, i, std::min(lines_at_once, lines - i));
    return out;
  }

  struct Expected {
    double value;
    double terms;  // absolute values, as averaged
  };
  /// In double precision.
  Expected expected(std::int64_t pixel, std::int64_t channel) const {
    const Windows& w = pool.windows;
    const std::int64_t image = pixel / w.result[1] / w.result[0];
    double sum = 0, terms = 0, largest = -kInfinity;
    std::int64_t inside = 0, counted = 0;
    for (std::int64_t i = 0; i < w.kernel[0] * w.kernel[1]; ++i) {
      const std::int64_t y = pixel / w.result[1] % w.result[0] * w.stride[0] - w.pad[0] +
                             i / w.kernel[1] * w.dilation[0];
      const std::int64_t x =
          pixel % w.result[1] * w.stride[1] - w.pad[1] + i % w.kernel[1] * w.dilation[1];
      if (y < pool.counted[0] && x < pool.counted[1]) ++counted;
      if (y < 0 || y >= w.size[0] || x < 0 || x >= w.size[1]) continue;
      ++inside;
      const double value = src[static_cast<std::size_t>(
          ((image * w.size[0] + y) * w.size[1] + x) * w.pitch + channel)];
      sum += value;
      terms += std::fabs(value);
      if (!(largest >= value) && !std::isnan(largest)) largest = value;
    }
    if (pool.mode == Pool::Mode::kMaximum) return {largest, std::fabs(largest)};
    const auto count = static_cast<double>(pool.counts_padding ? counted : inside);
    return inside == 0 ? Expected{0, 0} : Expected{sum / count, terms / count};
  }

  void check(const std::string& name) {
    const Floats out = run();
    for (const std::int64_t lines : {1, 3}) ASSERT_EQ(run(lines), out) << name;
    const Windows& w = pool.windows;
    const double terms = static_cast<double>(w.kernel[0] * w.kernel[1]);
    const double bound = pool.mode == Pool::Mode::kMaximum ? 0 : (terms + 1) * kUnit;
    for (std::int64_t pixel = 0; pixel < w.rows(); ++pixel)
      for (std::int64_t c = 0; c < w.channels; ++c) {
        const float got = out[static_cast<std::size_t>(pixel * w.channels + c)];
        const Expected exact = expected(pixel, c);
        test::note_error(double{got} - exact.value, exact.terms);
        ASSERT_NEAR(got, exact.value, bound) << name << ": pixel " << pixel << " channel " << c;
      }
  }
};

class PoolLines : public ::testing::TestWithParam<Pool::Mode> {};

TEST_P(PoolLines, AreCloseToDoublePrecision) {
  std::mt19937 random(5);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (std::uint32_t i = 0; i < 400; ++i) {
    Windows w{.images = 1 + up_to(1), .channels = 1 + up_to(40)};
    Windows::Pair end{0, 0};
    for (const std::size_t axis : {0U, 1U}) {
      w.kernel[axis] = 1 + up_to(4);
      w.size[axis] = 1 + up_to(14);
      w.stride[axis] = 1 + up_to(2);
      w.dilation[axis] = i % 4 == 0 ? 1 + up_to(2) : 1;
      const std::int64_t span = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
      w.pad[axis] = std::min(up_to(3), span - 1);
      end[axis] = std::min(up_to(3), span - 1);
      const std::int64_t room = w.size[axis] + w.pad[axis] + end[axis] - span;
      if (room < 0) w.size[axis] = span;
      const std::int64_t rest = std::max<std::int64_t>(room, w.pad[axis] + end[axis]);
      w.result[axis] =
          rest / w.stride[axis] + 1 + (i % 3 == 0 && rest % w.stride[axis] > 0 ? 1 : 0);
    }
    w.pitch = w.channels + (i % 3 == 0 ? 4 : 0);
    Trial trial{.pool = {.windows = w, .mode = GetParam(), .counts_padding = i % 2 == 0},
                .pad_end = end};
    trial.prepare(i);
    trial.check("case " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PoolLines,
                         ::testing::Values(Pool::Mode::kMaximum, Pool::Mode::kAverage),
                         [](const auto& test) {
                           return test.param == Pool::Mode::kMaximum ? "maximum" : "average";
                         });

TEST(Pool, KeepsNanAndInfinity) {
  for (const Pool::Mode mode : {Pool::Mode::kMaximum, Pool::Mode::kAverage})
    for (const float special : {kNan, -kNan, kInfinity, -kInfinity})
      for (const std::int64_t stride : {1, 2, 3})
        for (std::int64_t kernel = 2; kernel < 6; ++kernel) {
          const std::int64_t size = 12, result = (size - kernel) / stride + 1;
          Trial trial{.pool = {.windows = {.size = {size, size},
                                           .result = {result, result},
                                           .kernel = {kernel, kernel},
                                           .stride = {stride, stride},
                                           .channels = 19,
                                           .pitch = 19},
                               .mode = mode}};
          trial.prepare(3);
          for (std::size_t i = 0; i < trial.src.size(); i += 97) trial.src[i] = special;
          const Floats out = trial.run();
          for (std::int64_t pixel = 0; pixel < result * result; ++pixel)
            for (std::int64_t c = 0; c < 19; ++c) {
              const float is = out[static_cast<std::size_t>(pixel * 19 + c)];
              const double wanted = trial.expected(pixel, c).value;
              if (std::isnan(wanted) || std::isinf(wanted))
                ASSERT_EQ(std::to_string(std::fabs(is)), std::to_string(std::fabs(wanted)));
              else
                ASSERT_NEAR(is, wanted, 26 * kUnit);
            }
        }
}

TEST(Pool, OfPaddingAloneIsTheLowestOrZero) {
  for (const Pool::Mode mode : {Pool::Mode::kMaximum, Pool::Mode::kAverage}) {
    Trial trial{.pool = {.windows = {.size = {2, 2},
                                     .result = {6, 6},
                                     .kernel = {2, 2},
                                     .pad = {4, 4},
                                     .channels = 9,
                                     .pitch = 9},
                         .mode = mode}};
    trial.prepare(4);
    const float empty = mode == Pool::Mode::kMaximum ? -kInfinity : 0;
    EXPECT_EQ(trial.run()[0], empty);
    EXPECT_EQ(trial.run()[8], empty);
  }
}

}  // namespace
}  // namespace ctxgen::kernels
