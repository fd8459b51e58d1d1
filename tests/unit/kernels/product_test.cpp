#include "ctxgen/kernels/product.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/base/instruction_set.h"

#include "random_windows.h"
#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kUnit = 1.0 / (1 << 24);

using Floats = std::vector<float>;

Floats uniform(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-1, 1);
  Floats list(static_cast<std::size_t>(count));
  for (float& x : list) x = distribution(generator);
  return list;
}

/// A product with the memory that it needs and not a float more.
struct Trial {
  Windows windows;
  std::int64_t columns = 1, block = 32, extra_pitch = 0;
  PanelType type = PanelType::kFloat;
  bool bias = false, start = false;
  float low = -kInfinity, high = kInfinity;

  Floats src = {}, weights = {}, biases = {}, starts = {};  // weights: [depth, columns]
  std::vector<std::byte> panels = {};
  PanelProduct product = {};

  void prepare() {
    const std::int64_t depth = windows.depth(), rows = windows.rows();
    const std::int64_t pixels = windows.images * windows.size[0] * windows.size[1];
    src = uniform(pixels == 0 ? 0 : (pixels - 1) * windows.pitch + windows.channels, 1);
    weights = uniform(depth * columns, 2);
    biases = uniform(columns, 3);
    product.result_pitch = columns + extra_pitch;
    starts = uniform(rows == 0 ? 0 : (rows - 1) * product.result_pitch + columns, 4);
    pack();
    product.windows = windows;
    product.src = src.data();
    product.finish = {.bias = bias ? biases.data() : nullptr,
                      .start = start ? starts.data() : nullptr,
                      .start_pitch = product.result_pitch,
                      .low = low,
                      .high = high};
  }

  /// Weights are what the panels' type holds of them.
  void pack() {
    const std::int64_t depth = windows.depth(), count = (columns + block - 1) / block;
    product.matrix = {nullptr, type, columns, block, (depth + 1) * block};
    const std::size_t width = type == PanelType::kFloat ? 4 : 2;
    panels.assign(static_cast<std::size_t>(count * product.matrix.panel_elements) * width, {});
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t n = 0; n < columns; ++n) {
        float& weight = weights[static_cast<std::size_t>(k * columns + n)];
        std::byte* at =
            panels.data() + static_cast<std::size_t>(n / block * product.matrix.panel_elements +
                                                     k * block + n % block) *
                                width;
        if (type == PanelType::kFloat) {
          std::memcpy(at, &weight, sizeof weight);
          continue;
        }
        const bool brain = type == PanelType::kBfloat16;
        const std::uint16_t bits = brain ? float_to_bfloat16(weight) : float_to_float16(weight);
        weight = brain ? bfloat16_to_float(bits) : float16_to_float(bits);
        std::memcpy(at, &bits, sizeof bits);
      }
    product.matrix.panels = panels.data();
  }

  /// By the parts that the kernel wants, or by parts of so many rows and blocks.
  Floats run(std::int64_t part_rows = 0, std::int64_t part_blocks = 1) {
    Floats out(starts.size(), -77);
    product.result = out.data();
    ProductParts parts = product_parts(windows, product.matrix, 8);
    if (part_rows > 0) {
      parts.part_rows = part_rows;
      parts.part_columns = part_blocks * block;
    }
    for (std::int64_t i = 0; i < parts.count(); ++i) multiply_panels(product, parts.part(i));
    return out;
  }

  /// Line and column of the image at a row's position.
  Windows::Pair place(std::int64_t row, std::int64_t position) const {
    const Windows& w = windows;
    return {row / w.result[1] % w.result[0] * w.stride[0] - w.pad[0] +
                position / w.kernel[1] * w.dilation[0],
            row % w.result[1] * w.stride[1] - w.pad[1] + position % w.kernel[1] * w.dilation[1]};
  }

  /// Whether position number `position` of the kernel lies in the image for a row.
  bool has(std::int64_t row, std::int64_t position) const {
    const auto [y, x] = place(row, position);
    return x >= 0 && x < windows.size[1] && y >= 0 && y < windows.size[0];
  }

  /// Element k of a row of the left matrix.
  double element(std::int64_t row, std::int64_t k) const {
    const Windows& w = windows;
    const std::int64_t channel = k % w.channels, position = k / w.channels;
    if (!has(row, position)) return 0;
    const auto [y, x] = place(row, position);
    const std::int64_t image = row / w.result[1] / w.result[0];
    return src[static_cast<std::size_t>(((image * w.size[0] + y) * w.size[1] + x) * w.pitch +
                                        channel)];
  }

  /// An element of the result as multiply_panels() promises it.
  float chain(std::int64_t row, std::int64_t n) const {
    float sum = start ? starts[static_cast<std::size_t>(row * product.result_pitch + n)] : 0;
    for (std::int64_t k = 0; k < windows.depth(); ++k)
      if (has(row, k / windows.channels))
        sum = std::fma(static_cast<float>(element(row, k)),
                       weights[static_cast<std::size_t>(k * columns + n)], sum);
    if (bias) sum += biases[static_cast<std::size_t>(n)];
    return std::clamp(sum, low, high);
  }

  /// The largest error of the result in units of 2^-24 of the sum of absolute values.
  void check(const Floats& out, const std::string& name) const {
    for (std::int64_t row = 0; row < windows.rows(); ++row)
      for (std::int64_t n = 0; n < product.result_pitch; ++n) {
        const auto at = static_cast<std::size_t>(row * product.result_pitch + n);
        if (at >= out.size()) continue;
        if (n >= columns) {
          ASSERT_EQ(out[at], -77) << name << ": wrote behind row " << row;
          continue;
        }
        double sum = start ? starts[at] : 0, size = std::fabs(sum);
        for (std::int64_t k = 0; k < windows.depth(); ++k) {
          const double term = element(row, k) * weights[static_cast<std::size_t>(k * columns + n)];
          sum += term;
          size += std::fabs(term);
        }
        if (bias) sum += biases[static_cast<std::size_t>(n)];
        if (bias) size += std::fabs(biases[static_cast<std::size_t>(n)]);
        sum = std::clamp<double>(sum, low, high);
        test::note_error(double{out[at]} - sum, size);
        const double roundings = 2.0 * std::sqrt(static_cast<double>(windows.depth() + 2)) + 2;
        ASSERT_NEAR(out[at], sum, roundings * kUnit * size)
            << name << ": row " << row << " column " << n;
      }
  }
};

TEST(PanelProduct, OfMatricesIsCloseToDoublePrecision) {
  std::mt19937 random(7);
  const auto one_of = [&](std::initializer_list<std::int64_t> list) {
    return std::data(list)[random() % list.size()];
  };
  for (int i = 0; i < 100; ++i) {
    const std::int64_t rows =
        one_of({0, 1, 2, 3, 5, 6, 7, 13, 14, 15, 28, 29, 60, 168, 224, 225, 300});
    const std::int64_t depth = one_of({0, 1, 2, 7, 16, 24, 64, 383, 767, 768, 769, 1600});
    Trial trial{.windows = matrix_rows(rows, depth, depth + one_of({0, 0, 5})),
                .columns = one_of({1, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 100, 130}),
                .block = one_of({16, 32, 48, 64}),
                .extra_pitch = one_of({0, 3}),
                .type = static_cast<PanelType>(one_of({0, 1, 2})),
                .bias = one_of({0, 1}) == 1,
                .start = one_of({0, 1}) == 1};
    if (one_of({0, 1}) == 1) trial.low = 0;
    if (one_of({0, 1}) == 1) trial.high = 0.5;
    trial.prepare();
    trial.check(trial.run(), std::to_string(rows) + " x " + std::to_string(depth) + " x " +
                                 std::to_string(trial.columns) + " in " +
                                 std::to_string(trial.block));
    if (HasFatalFailure()) return;
  }
}

TEST(PanelProduct, OfWindowsIsCloseToDoublePrecision) {
  std::mt19937 random(8);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (int i = 0; i < 200; ++i) {
    Windows w{.images = 1 + up_to(2), .channels = 1 + up_to(20)};
    if (i % 5 == 0) w.channels = 200;
    test::choose_axes(
        w, {.kernel = 5, .size = 14, .stride = 3, .dilation = 3, .pad = 6, .after = 6}, up_to);
    w.pitch = w.channels + (i % 3 == 0 ? 4 : 0);
    Trial trial{.windows = w,
                .columns = 1 + up_to(70),
                .block = 16 * (1 + up_to(3)),
                .type = static_cast<PanelType>(i % 3),
                .bias = up_to(1) == 1,
                .start = up_to(1) == 1};
    trial.prepare();
    trial.check(trial.run(), "case " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

/// Edges of small images with many channels, whose rows are multiplied position by position.
TEST(PanelProduct, OfSmallImagesIsOneChainOfMultiplyAdds) {
  if (simd_level() < SimdLevel::kAvx2) GTEST_SKIP() << "no fused multiply-adds";
  std::mt19937 random(9);
  const auto up_to = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (int i = 0; i < 24; ++i) {
    Windows w{.images = 1 + up_to(1), .channels = 256 + up_to(200)};
    test::choose_axes(w, {.kernel = 3, .size = 7, .stride = 2, .dilation = 2, .pad = 3, .after = 2},
                      up_to);
    w.pitch = w.channels + (i % 3 == 0 ? 4 : 0);
    Trial trial{.windows = w,
                .columns = 1 + up_to(20),
                .block = 16 * (1 + up_to(3)),
                .type = static_cast<PanelType>(i % 3),
                .bias = up_to(1) == 1,
                .start = up_to(1) == 1,
                .low = i % 4 == 0 ? 0 : -kInfinity};
    trial.prepare();
    const Floats out = trial.run();
    EXPECT_EQ(trial.run(5, 1), out) << "case " << i;
    for (std::int64_t row = 0; row < w.rows(); ++row)
      for (std::int64_t n = 0; n < trial.columns; ++n)
        ASSERT_EQ(out[static_cast<std::size_t>(row * trial.columns + n)], trial.chain(row, n))
            << "case " << i << ": row " << row << " column " << n;
  }
}

TEST(PanelProduct, IsTheSameByAnyParts) {
  for (const PanelType type : {PanelType::kFloat, PanelType::kBfloat16, PanelType::kFloat16}) {
    Trial trial{.windows = {.images = 2,
                            .size = {11, 9},
                            .result = {11, 9},
                            .kernel = {3, 3},
                            .pad = {1, 1},
                            .channels = 100,
                            .pitch = 100},
                .columns = 100,
                .block = 32,
                .type = type,
                .bias = true,
                .start = true};
    trial.prepare();
    const Floats whole = trial.run(224, 8);
    for (const std::int64_t rows : {1, 2, 5, 14, 17, 100})
      for (const std::int64_t blocks : {1, 2, 4}) EXPECT_EQ(trial.run(rows, blocks), whole) << rows;
  }
}

TEST(PanelProduct, OfOneRowIsTheSameByAnyNumberOfPanelsAtOnce) {
  for (const std::int64_t columns : {32, 64, 96, 128, 160, 224, 229, 256, 300})
    for (const bool more : {false, true}) {
      Trial trial{
          .windows = matrix_rows(1, 1601, 1601), .columns = columns, .bias = more, .start = more};
      if (more) trial.low = 0;
      trial.prepare();
      const Floats alone = trial.run(1, 1);
      trial.check(alone, std::to_string(columns) + " columns");
      for (const std::int64_t blocks : {2, 3, 4, 5, 8, 10})
        EXPECT_EQ(trial.run(1, blocks), alone) << columns << " columns by " << blocks << " panels";
    }
}

TEST(PanelProduct, MayStartFromItsResult) {
  Trial trial{.windows = matrix_rows(20, 1900, 1900), .columns = 40, .start = true};
  trial.prepare();
  const Floats expected = trial.run();
  Floats in_place = trial.starts;
  trial.product.finish.start = trial.product.result = in_place.data();
  const ProductParts parts = product_parts(trial.windows, trial.product.matrix, 1);
  for (std::int64_t i = 0; i < parts.count(); ++i) multiply_panels(trial.product, parts.part(i));
  EXPECT_EQ(in_place, expected);
}

TEST(PanelProduct, KeepsNanAndInfinity) {
  Trial trial{.windows = matrix_rows(3, 20, 20), .columns = 20, .bias = true, .low = 0, .high = 6};
  trial.prepare();
  trial.src[3] = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t n = 0; n < 20; ++n) trial.weights[static_cast<std::size_t>(n)] = 1;
  trial.pack();
  trial.src[20] = kInfinity;
  trial.src[40] = -kInfinity;
  const Floats out = trial.run();
  for (std::size_t n = 0; n < 20; ++n) {
    EXPECT_TRUE(std::isnan(out[n]));
    EXPECT_EQ(out[20 + n], 6);
    EXPECT_EQ(out[40 + n], 0);
  }
}

void expect_covered_once(const ProductParts& parts, std::int64_t block) {
  std::int64_t covered = 0;
  for (std::int64_t i = 0; i < parts.count(); ++i) {
    const ProductPart part = parts.part(i);
    ASSERT_GT(part.rows, 0);
    ASSERT_LE(part.rows, 224);
    ASSERT_GT(part.columns, 0);
    ASSERT_EQ(part.column % block, 0);
    ASSERT_LE(part.row + part.rows, parts.rows);
    ASSERT_LE(part.column + part.columns, parts.columns);
    covered += part.rows * part.columns;
  }
  EXPECT_EQ(covered, parts.rows * parts.columns);
}

TEST(PanelProduct, PartsCoverTheResultOnce) {
  for (const std::int64_t rows : {0, 1, 27, 28, 29, 224, 225, 3136, 100000})
    for (const std::int64_t columns : {1, 48, 100, 768, 5000})
      for (const std::int64_t block : {16, 48, 64}) {
        const std::int64_t wanted = block == 16 ? 1 : 16;
        const Windows windows = matrix_rows(rows, 300, 300);
        const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, block, 300 * block};
        const ProductParts parts = product_parts(windows, matrix, wanted);
        expect_covered_once(parts, block);
      }
}

/// Elements of the thread that computes most of them, which takes the next of equally many parts.
std::int64_t longest_share(const ProductParts& parts, std::int64_t threads) {
  const std::int64_t count = parts.count(), each = (count + threads - 1) / threads;
  std::int64_t longest = 0;
  for (std::int64_t first = 0; first < count; first += each) {
    std::int64_t share = 0;
    for (std::int64_t i = first; i < std::min(first + each, count); ++i)
      share += parts.part(i).rows * parts.part(i).columns;
    longest = std::max(longest, share);
  }
  return longest;
}

TEST(PanelProduct, PartsOfATeamCoverTheResultOnce) {
  for (const std::int64_t rows : {0, 1, 7, 50, 197, 224, 225, 257, 1500, 100000})
    for (const std::int64_t columns : {1, 64, 100, 384, 768, 3072, 50257})
      for (const std::int64_t depth : {1, 64, 768, 3072})
        for (const int threads : {1, 2, 3, 8, 64}) {
          const Windows windows = matrix_rows(rows, depth, depth);
          // Of panels of 32 columns, tiles of AVX-512 take two at once.
          const bool wide = simd_level() >= SimdLevel::kAvx512;
          for (const std::int64_t block : {32, 48, 64}) {
            const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, block, depth * block};
            const ProductParts parts = parts_of_team(windows, matrix, threads);
            expect_covered_once(parts, block == 32 && wide ? 64 : block);
          }
        }
}

TEST(PanelProduct, PartsOfATeamAreEven) {
  if (simd_level() < SimdLevel::kAvx512) GTEST_SKIP() << "other parts without AVX-512";
  for (const std::int64_t rows : {49, 50, 128, 197, 257, 512, 1500})
    for (const std::int64_t columns : {384, 576, 768, 1000, 1536, 3072})
      for (const int threads : {2, 3, 4}) {
        const Windows windows = matrix_rows(rows, 768, 768);
        const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, 64, 768 * 64};
        const ProductParts parts = parts_of_team(windows, matrix, threads);
        const double share = static_cast<double>(longest_share(parts, threads)) * threads /
                             static_cast<double>(rows * columns);
        EXPECT_LE(share, 1.2) << rows << " rows, " << columns << " columns, " << threads;
      }
}

TEST(PanelProduct, PartsOfWindowsAreEvenWithoutAvx512Too) {
  for (const std::int64_t side : {14, 17, 35, 56})
    for (const std::int64_t columns : {96, 128, 160, 192, 320})
      for (const int threads : {2, 3, 4}) {
        Windows windows{.size = {side, side}, .result = {side, side}, .kernel = {1, 7}};
        windows.pad = {0, 3};
        windows.channels = windows.pitch = 192;
        const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, 64, windows.depth() * 64};
        const ProductParts parts = parts_of_team(windows, matrix, threads);
        expect_covered_once(parts, 64);
        const std::int64_t stored = (columns + 63) / 64 * 64;
        const double share = static_cast<double>(longest_share(parts, threads)) * threads /
                             static_cast<double>(windows.rows() * stored);
        EXPECT_LE(share, 1.2) << side << " lines, " << columns << " columns, " << threads;
      }
}

TEST(PanelProduct, ThreadsHaveTheSameRowsOfAllGroups) {
  constexpr std::int64_t kGroups = 4;
  for (const std::int64_t rows : {20, 56, 784, 3001})
    for (const std::int64_t columns : {17, 68, 300})
      for (const int threads : {1, 2, 3, 8}) {
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns");
        const Windows windows = matrix_rows(rows, 16, 16 * kGroups);
        const PackedMatrix matrix{nullptr, PanelType::kFloat, columns, 64, 16 * 64};
        const ProductParts parts = parts_of_team(windows, matrix, threads, kGroups);
        expect_covered_once(parts, 64);
        std::set<std::pair<std::int64_t, std::int64_t>> seen;
        std::int64_t row = 0;
        for (std::int64_t i = 0; i < kGroups * parts.count(); ++i) {
          const auto [group, part] = parts.part_of_groups(i, kGroups);
          ASSERT_LT(group, kGroups);
          ASSERT_LT(part, parts.count());
          EXPECT_TRUE(seen.emplace(group, part).second);
          if (!parts.groups_inside) continue;
          EXPECT_GE(parts.part(part).row, row);
          row = parts.part(part).row;
        }
        EXPECT_EQ(parts.groups_inside, threads > 1 && rows >= 28 * threads && rows > columns);
      }
}

TEST(PanelProduct, IsTheSameForAnyTeam) {
  for (const std::int64_t rows : {20, 50, 230}) {
    Trial trial{.windows = matrix_rows(rows, 800, 800), .columns = 200, .block = 64, .bias = true};
    trial.prepare();
    const Floats alone = trial.run(1, 1);
    for (const int threads : {1, 2, 3, 8}) {
      Floats out(alone.size(), -77);
      trial.product.result = out.data();
      const ProductParts parts = parts_of_team(trial.windows, trial.product.matrix, threads);
      for (std::int64_t i = 0; i < parts.count(); ++i)
        multiply_panels(trial.product, parts.part(i));
      EXPECT_EQ(out, alone) << rows << " rows, " << threads << " threads";
    }
  }
}

}  // namespace
}  // namespace ctxgen::kernels
