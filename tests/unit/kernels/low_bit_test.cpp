#include "ctxgen/kernels/low_bit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <format>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "random_floats.h"
#include "worst_error.h"

namespace ctxgen::kernels {
namespace {

using test::random_floats;

/// A matrix as ONNX has it, with numbers over the whole range of its bits, also where no element is.
struct Case {
  Case(const LowBitMatrix& form, unsigned seed) : matrix(form) {
    std::mt19937 random(seed);
    const std::int64_t blocks = form.blocks(), row = (blocks * form.bits + 7) / 8;
    const auto byte = [&] { return static_cast<std::uint8_t>(random()); };
    std::uniform_real_distribution<float> small(0.001F, 0.1F), any(0.0F, 255.0F);
    values.resize(static_cast<std::size_t>(form.n * blocks * form.block * form.bits / 8));
    std::ranges::generate(values, byte);
    scales.resize(static_cast<std::size_t>(form.n * blocks));
    std::ranges::generate(scales, [&] { return small(random); });
    zeros.resize(static_cast<std::size_t>(form.n * row));
    std::ranges::generate(zeros, byte);
    float_zeros.resize(scales.size());
    std::ranges::generate(float_zeros, [&] { return any(random) / 16; });
  }

  [[nodiscard]] LowBitSource source() const {
    return {values.data(), scales.data(), zeros.data(), float_zeros.data()};
  }
  [[nodiscard]] static int bits_at(const std::uint8_t* row, std::int64_t i, std::int64_t bits) {
    return (row[i * bits / 8] >> (i * bits % 8)) & ((1 << bits) - 1);
  }
  [[nodiscard]] std::int64_t place(std::int64_t k, std::int64_t n) const {
    return n * matrix.blocks() + k / matrix.block;
  }
  /// Element less its zero point, without the scale.
  [[nodiscard]] double centred(std::int64_t k, std::int64_t n) const {
    const std::int64_t row = (matrix.blocks() * matrix.bits + 7) / 8;
    const int q = bits_at(values.data() + n * matrix.blocks() * matrix.block * matrix.bits / 8, k,
                          matrix.bits);
    if (matrix.zeros == ZeroPoints::kMiddle) return q - (1 << (matrix.bits - 1));
    if (matrix.zeros == ZeroPoints::kInteger)
      return q - bits_at(zeros.data() + n * row, k / matrix.block, matrix.bits);
    return q - double{float_zeros[static_cast<std::size_t>(place(k, n))]};
  }
  [[nodiscard]] double scale(std::int64_t k, std::int64_t n) const {
    return double{scales[static_cast<std::size_t>(place(k, n))]};
  }

  LowBitMatrix matrix;
  std::vector<std::uint8_t> values, zeros;
  std::vector<float> scales, float_zeros;
};

struct Free {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{64}); }
};
using Aligned = std::unique_ptr<std::byte[], Free>;
Aligned aligned(std::uint64_t bytes) {
  return Aligned(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
}

std::vector<float> product(const Case& one, LowBitCompute compute, std::int64_t rows,
                           const std::vector<float>& a, const std::vector<float>& bias,
                           Workers& workers, std::int64_t lanes = 1) {
  const Aligned packed = aligned(packed_bytes(one.matrix));
  pack(one.matrix, one.source(), packed.get());
  const Aligned scratch = aligned(run_scratch_bytes(one.matrix, compute, rows).value());
  std::vector<float> out(static_cast<std::size_t>(rows * one.matrix.n));
  low_bit_product({.matrix = one.matrix,
                   .compute = compute,
                   .rows = rows,
                   .a = a.data(),
                   .packed = packed.get(),
                   .bias = bias.empty() ? nullptr : bias.data(),
                   .out = out.data(),
                   .scratch = scratch.get(),
                   .run_scratch = true,
                   .lanes = lanes},
                  workers);
  return out;
}

/// What a row is to its product: itself, or integers and their steps.
std::vector<double> seen(const LowBitMatrix& matrix, LowBitCompute compute, const float* row) {
  std::vector<double> result(row, row + matrix.k);
  if (compute == LowBitCompute::kFloat) return result;
  for (std::int64_t k = 0; k < matrix.k; k += matrix.block) {
    const std::int64_t end = std::min(k + matrix.block, matrix.k);
    float most = 0;
    for (std::int64_t i = k; i < end; ++i) most = std::max(most, std::abs(row[i]));
    const float step = most / 127.0F, by = step == 0 ? 0 : 1.0F / step;
    for (std::int64_t i = k; i < end; ++i)
      result[static_cast<std::size_t>(i)] = double{std::nearbyint(row[i] * by)} * double{step};
  }
  return result;
}

void expect_exact(const Case& one, LowBitCompute compute, std::int64_t rows, bool with_bias) {
  const LowBitMatrix& m = one.matrix;
  const std::vector<float> a = random_floats(rows * m.k, 0, 1, 5);
  const std::vector<float> bias = with_bias ? random_floats(m.n, 0, 1, 6) : std::vector<float>();
  OneThread workers;
  const std::vector<float> out = product(one, compute, rows, a, bias, workers);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::vector<double> x = seen(m, compute, a.data() + r * m.k);
    for (std::int64_t n = 0; n < m.n; ++n) {
      double sum = with_bias ? double{bias[static_cast<std::size_t>(n)]} : 0;
      double size = std::abs(sum);  // of what is added up
      for (std::int64_t k = 0; k < m.k; ++k) {
        const double term = x[static_cast<std::size_t>(k)] * one.scale(k, n);
        sum += term * one.centred(k, n);
        size += std::abs(term) * (1 << m.bits);
      }
      // Few rows subtract the zero points from sums, so roundings are of uncentred terms.
      const double unit = double{std::numeric_limits<float>::epsilon()};
      test::note_error(double{out[static_cast<std::size_t>(r * m.n + n)]} - sum, size);
      ASSERT_NEAR(double{out[static_cast<std::size_t>(r * m.n + n)]}, sum, 4 * unit * size)
          << std::format("{} bits, blocks of {}, zeros {}, {} x {} x {}, compute {}, at {} {}",
                         m.bits, m.block, static_cast<int>(m.zeros), rows, m.k, m.n,
                         static_cast<int>(compute), r, n);
    }
  }
}

TEST(LowBitProduct, IsCloseToDoublePrecision) {
  unsigned seed = 0;
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 64, 128, 256})
      for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger, ZeroPoints::kFloat})
        for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8}) {
          if (zeros == ZeroPoints::kFloat && compute == LowBitCompute::kInt8) continue;
          for (const auto& [k, n] : {std::pair{1, 1}, {16, 32}, {70, 33}, {300, 67}, {544, 31}}) {
            const Case one({k, n, bits, block, zeros}, ++seed);
            for (const std::int64_t rows : {1, 3, 9, 21})
              expect_exact(one, compute, rows, seed % 2 == 0);
          }
        }
}

TEST(LowBitProduct, OfAnyNumberOfRows) {
  for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8}) {
    const Case one({100, 37, 4, 32, ZeroPoints::kInteger}, 3);
    for (std::int64_t rows = 0; rows <= 65; ++rows) expect_exact(one, compute, rows, true);
    expect_exact(one, compute, 300, false);  // several parts
  }
}

/// Of so many columns one row may take two tiles at once, and what is left.
TEST(LowBitProduct, OfOneRowAndManyColumns) {
  unsigned seed = 0;
  for (const std::int64_t bits : {2, 4, 8})
    for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger, ZeroPoints::kFloat})
      for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8}) {
        if (zeros == ZeroPoints::kFloat && compute == LowBitCompute::kInt8) continue;
        for (const std::int64_t n : {480, 481, 512, 513, 544, 1000}) {
          const Case one({70, n, bits, 32, zeros}, ++seed);
          expect_exact(one, compute, 1, seed % 2 == 0);
        }
      }
}

/// All weights and numbers at the ends of their ranges, where sums of 16 bits come closest to their end.
TEST(LowBitProduct, HoldsTheLargestSums) {
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 256})
      for (const float sign : {1.0F, -1.0F}) {
        Case one({512, 32, bits, block, ZeroPoints::kInteger}, 1);
        std::ranges::fill(one.values, std::uint8_t{255});
        std::ranges::fill(one.zeros, std::uint8_t{0});
        std::ranges::fill(one.scales, 1.0F);
        OneThread workers;
        for (const std::int64_t rows : {1, 2, 4, 8, 16, 33}) {
          const std::vector<float> a(static_cast<std::size_t>(rows) * 512, sign * 127);
          for (const float y : product(one, LowBitCompute::kInt8, rows, a, {}, workers))
            EXPECT_EQ(y, sign * 127.0F * 512.0F * static_cast<float>((1 << bits) - 1));
        }
      }
}

/// Calls tasks in another order than their own.
class Backwards final : public Workers {
 public:
  void parallel_for(std::int64_t count, Task task) override {
    for (std::int64_t i = count; i-- > 0;) task(i);
  }
};

TEST(LowBitProduct, DoesNotDependOnWorkers) {
  for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8})
    for (const std::int64_t rows : {1, 200}) {
      const Case one({700, 1300, 4, 32, ZeroPoints::kMiddle}, 8);
      const std::vector<float> a = random_floats(rows * 700, 0, 1, 4);
      OneThread one_thread;
      Backwards backwards;
      StartedThreads threads(4);
      const auto expected = product(one, compute, rows, a, {}, one_thread);
      EXPECT_EQ(product(one, compute, rows, a, {}, backwards), expected);
      EXPECT_EQ(product(one, compute, rows, a, {}, threads), expected);
      for (const std::int64_t lanes : {2, 3, 8, 9, 1000})
        EXPECT_EQ(product(one, compute, rows, a, {}, threads, lanes), expected) << lanes;
    }
}

/// Many rows are AMX's where there is one, few are not: sums of integers are exact, and so rounded alike.
TEST(LowBitProduct, OfManyRowsIsThatOfFew) {
  OneThread workers;
  unsigned seed = 200;
  constexpr std::int64_t kRows = 43, kFew = 5;
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 64, 128, 256})
      for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger})
        for (const auto& [k, n] : {std::pair{20, 16}, {600, 67}, {1030, 32}}) {
          const Case one({k, n, bits, block, zeros}, ++seed);
          const std::vector<float> a = random_floats(kRows * k, 0, 1, seed);
          const auto all = product(one, LowBitCompute::kInt8, kRows, a, {}, workers);
          for (std::int64_t row = 0; row < kRows; row += kFew) {
            const std::int64_t rows = std::min(kFew, kRows - row);
            const std::vector<float> some(a.begin() + row * k, a.begin() + (row + rows) * k);
            const auto few = product(one, LowBitCompute::kInt8, rows, some, {}, workers);
            EXPECT_TRUE(std::equal(few.begin(), few.end(), all.begin() + row * n))
                << std::format("{} bits, blocks of {}, zeros {}, {} x {}, row {}", bits, block,
                               static_cast<int>(zeros), k, n, row);
          }
        }
}

TEST(LowBitProduct, KeepsNanAndInfinityInTheirRow) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  OneThread workers;
  for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger, ZeroPoints::kFloat})
    for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8})
      for (const std::int64_t rows : {1, 2, 20})
        for (const float special : {kNan, kInfinity, -kInfinity}) {
          if (zeros == ZeroPoints::kFloat && compute == LowBitCompute::kInt8) continue;
          const Case one({70, 40, 4, 32, zeros}, 2);
          std::vector<float> a = random_floats(rows * 70, 0, 1, 9);
          const std::int64_t last = rows == 1 ? 0 : 1;
          a[static_cast<std::size_t>(last * 70 + 66)] = special;
          const auto out = product(one, compute, rows, a, {}, workers);
          for (std::size_t i = 0; i < out.size(); ++i)
            EXPECT_EQ(!std::isfinite(out[i]), static_cast<std::int64_t>(i) / 40 == last) << i;
        }
}

TEST(LowBitProduct, OfZerosAndTheSmallestNumbers) {
  OneThread workers;
  const Case one({64, 33, 4, 32, ZeroPoints::kMiddle}, 2);
  for (const float x : {0.0F, 1e-45F, 1e-37F})
    for (const auto compute : {LowBitCompute::kFloat, LowBitCompute::kInt8})
      for (const float y : product(one, compute, 1, std::vector<float>(64, x), {}, workers))
        EXPECT_LE(std::abs(y), 1e-34F);
}

/// A row whose numbers differ by many powers of two, within blocks and from block to block: what is rounded off is relative to
/// the largest number of a block. Next to nothing is not rounded to it.
TEST(LowBitProduct, OfOneRowOfNumbersOfAllSizes) {
  OneThread workers;
  for (const std::int64_t bits : {2, 4, 8})
    for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger})
      for (const float least : {1.0F, 1e-20F, 1e-33F}) {
        const Case one({256, 40, bits, 32, zeros}, 7);
        std::vector<float> a = random_floats(256, 0, 1, 3);
        for (std::size_t k = 0; k < a.size(); ++k)
          a[k] *=
              std::ldexp(k / 32 == 3 ? least : 1.0F, static_cast<int>(k % 32 + k / 32 * 3) - 40);
        const auto out = product(one, LowBitCompute::kFloat, 1, a, {}, workers);
        for (std::int64_t n = 0; n < 40; ++n) {
          double sum = 0, size = 0;
          for (std::int64_t block = 0; block < 256; block += 32) {
            double largest = 0;
            for (std::int64_t k = block; k < block + 32; ++k) {
              const double x = a[static_cast<std::size_t>(k)];
              sum += x * one.scale(k, n) * one.centred(k, n);
              largest = std::max(largest, std::abs(x));
            }
            size += 32 * largest * std::abs(one.scale(block, n)) * (1 << bits);
          }
          ASSERT_NEAR(double{out[static_cast<std::size_t>(n)]}, sum,
                      double{std::numeric_limits<float>::epsilon()} * size)
              << bits << " bits, column " << n;
        }
      }
}

TEST(LowBitMatrix, UnpacksItsColumns) {
  unsigned seed = 100;
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 64, 128, 256})
      for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger, ZeroPoints::kFloat})
        for (const auto& [k, n] : {std::pair{1, 1}, {16, 32}, {70, 33}, {257, 67}}) {
          const Case one({k, n, bits, block, zeros}, ++seed);
          const Aligned packed = aligned(packed_bytes(one.matrix));
          pack(one.matrix, one.source(), packed.get());
          for (std::int64_t column = 0; column < n; ++column) {
            std::vector<float> found(static_cast<std::size_t>(k), -1.0F);
            unpack_column(one.matrix, packed.get(), column, found.data());
            for (std::int64_t i = 0; i < k; ++i)
              ASSERT_EQ(found[static_cast<std::size_t>(i)],
                        static_cast<float>(one.centred(i, column)) *
                            static_cast<float>(one.scale(i, column)))
                  << std::format("{} bits, blocks of {}, at {} {}", bits, block, i, column);
          }
        }
}

TEST(LowBitMatrix, UnpacksItsTilesAsPanels) {
  unsigned seed = 200;
  for (const std::int64_t bits : {2, 4, 8})
    for (const auto zeros : {ZeroPoints::kMiddle, ZeroPoints::kInteger, ZeroPoints::kFloat}) {
      const Case one({70, 67, bits, 32, zeros}, ++seed);
      const Aligned packed = aligned(packed_bytes(one.matrix));
      pack(one.matrix, one.source(), packed.get());
      const std::int64_t panel = panel_rows(one.matrix) * kLowBitColumns;
      const Aligned memory = aligned(static_cast<std::uint64_t>(2 * panel) * sizeof(float));
      auto* panels = reinterpret_cast<float*>(memory.get());
      unpack_tiles(one.matrix, packed.get(), 1, 3, panels);
      for (std::int64_t column = 32; column < 96; ++column) {
        const float* from = panels + (column / 32 - 1) * panel + column % 32;
        std::vector<float> expected(70, 0.0F);
        if (column < 67) unpack_column(one.matrix, packed.get(), column, expected.data());
        for (std::int64_t k = 0; k < 70; ++k)
          ASSERT_EQ(from[k * kLowBitColumns], expected[static_cast<std::size_t>(k)])
              << std::format("{} bits at {} {}", bits, k, column);
      }
    }
}

TEST(LowBitMatrix, HasNumbersThatKernelsTake) {
  const LowBitMatrix good{.k = 10, .n = 10, .bits = 4, .block = 32};
  EXPECT_TRUE(is_valid(good));
  for (const std::int64_t bits : {-4, 0, 1, 3, 5, 16})
    EXPECT_FALSE(is_valid({10, 10, bits, 32, ZeroPoints::kMiddle})) << bits;
  for (const std::int64_t block : {-16, 0, 1, 8, 24, 48, 512})
    EXPECT_FALSE(is_valid({10, 10, 4, block, ZeroPoints::kMiddle})) << block;
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, (std::int64_t{1} << 31) + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_FALSE(is_valid({size, 10, 4, 32, ZeroPoints::kMiddle})) << size;
    EXPECT_FALSE(is_valid({10, size, 4, 32, ZeroPoints::kMiddle})) << size;
  }
}

TEST(LowBitMatrix, OfTheLargestSizesHasSizesThatFit) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const LowBitMatrix largest{kMost, kMost, 8, 16, ZeroPoints::kFloat};
  ASSERT_TRUE(is_valid(largest));
  EXPECT_EQ(packed_bytes(largest), (std::uint64_t{1} << 53) * (16 * 32 + 128 + 128));
  EXPECT_EQ(scratch_bytes(largest, LowBitCompute::kInt8, INT64_MAX), std::nullopt);
  EXPECT_EQ(scratch_bytes(largest, LowBitCompute::kFloat, INT64_MAX), 0U);
  EXPECT_GT(scratch_bytes(largest, LowBitCompute::kInt8, 3).value(), 3 * std::uint64_t{kMost});
}

}  // namespace
}  // namespace ctxgen::kernels
