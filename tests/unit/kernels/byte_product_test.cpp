#include "ctxgen/kernels/byte_product.h"

#include <algorithm>
#include <cmath>
#include <format>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ctxgen::kernels {
namespace {

struct Form {
  std::int64_t rows = 1, k = 1, n = 1;
  bool a_signed = false, b_signed = true;
  enum class Zeros : std::uint8_t { kNone, kOne, kPerColumn } zeros = Zeros::kNone;
  bool a_zero = true;
  bool limits = true;  // as compiles pack matrices
};

/// A product over the whole range of bytes.
struct Case {
  Case(const Form& of, unsigned seed) : form(of) {
    std::mt19937 random(seed);
    const auto byte = [&] { return static_cast<std::uint8_t>(random()); };
    a.resize(static_cast<std::size_t>(form.rows * form.k));
    b.resize(static_cast<std::size_t>(form.k * form.n));
    zeros.resize(static_cast<std::size_t>(form.n));
    scales.resize(zeros.size());
    bias.resize(zeros.size());
    std::ranges::generate(a, byte);
    std::ranges::generate(b, byte);
    std::ranges::generate(zeros, byte);
    std::uniform_real_distribution<float> some(0.001F, 0.1F);
    std::ranges::generate(scales, [&] { return some(random); });
    std::ranges::generate(bias, [&] { return some(random) * 1000; });
    a_zero = byte();
  }

  [[nodiscard]] ByteSource source() const {
    return {.is_signed = form.b_signed,
            .values = b.data(),
            .zeros = form.zeros == Form::Zeros::kNone ? nullptr : zeros.data(),
            .zero_per_column = form.zeros == Form::Zeros::kPerColumn};
  }
  [[nodiscard]] ByteMatrix matrix() const {
    return {
        .k = form.k, .n = form.n, .zeros = needs_zeros(source(), form.n), .limits = form.limits};
  }
  static std::int64_t number(std::uint8_t byte, bool is_signed) {
    return is_signed ? static_cast<std::int8_t>(byte) : byte;
  }
  [[nodiscard]] std::int64_t zero_of(std::size_t column) const {
    if (form.zeros == Form::Zeros::kNone) return 0;
    return number(zeros[form.zeros == Form::Zeros::kOne ? 0 : column], form.b_signed);
  }
  [[nodiscard]] std::int32_t sum(std::int64_t row, std::int64_t column) const {
    std::int64_t total = 0;
    const std::int64_t zero = form.a_zero ? number(a_zero, form.a_signed) : 0;
    for (std::int64_t k = 0; k < form.k; ++k)
      total += (number(a[static_cast<std::size_t>(row * form.k + k)], form.a_signed) - zero) *
               (number(b[static_cast<std::size_t>(k * form.n + column)], form.b_signed) -
                zero_of(static_cast<std::size_t>(column)));
    return static_cast<std::int32_t>(total);
  }

  Form form;
  std::vector<std::uint8_t> a, b, zeros;
  std::vector<float> scales, bias;
  std::uint8_t a_zero = 0;
};

struct Free {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t{64}); }
};
using Aligned = std::unique_ptr<std::byte[], Free>;
Aligned aligned(std::uint64_t bytes) {
  return Aligned(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
}

/// A product with all that it points to.
struct Packed {
  explicit Packed(const Case& one)
      : matrix(one.matrix()),
        bytes(aligned(packed_bytes(matrix))),
        scratch(aligned(scratch_bytes(matrix, one.form.rows).value())),
        product{.matrix = matrix,
                .rows = one.form.rows,
                .is_signed = one.form.a_signed,
                .a = one.a.data(),
                .a_zero = one.form.a_zero ? &one.a_zero : nullptr,
                .packed = bytes.get(),
                .scratch = scratch.get()} {
    pack(matrix, one.source(), bytes.get());
  }
  ByteMatrix matrix;
  Aligned bytes, scratch;
  ByteProduct product;
};

std::vector<std::int32_t> sums(const Case& one, Workers& workers, std::int64_t lanes = 1) {
  Packed packed(one);
  packed.product.lanes = lanes;
  std::vector<std::int32_t> result(static_cast<std::size_t>(one.form.rows * one.form.n));
  packed.product.sums = result.data();
  byte_product(packed.product, workers);
  return result;
}

std::string name_of(const Form& f) {
  return std::format("{} x {} x {}, {} by {}, zeros {}, zero of a {}", f.rows, f.k, f.n,
                     f.a_signed ? "s8" : "u8", f.b_signed ? "s8" : "u8", static_cast<int>(f.zeros),
                     f.a_zero);
}

void expect_exact(const Case& one) {
  OneThread workers;
  const std::vector<std::int32_t> out = sums(one, workers);
  for (std::int64_t r = 0; r < one.form.rows; ++r)
    for (std::int64_t n = 0; n < one.form.n; ++n)
      ASSERT_EQ(out[static_cast<std::size_t>(r * one.form.n + n)], one.sum(r, n))
          << name_of(one.form) << " at " << r << " " << n;
}

void expect_exact(const Form& form, unsigned seed) { expect_exact(Case(form, seed)); }

TEST(ByteProduct, IsExactInAllForms) {
  unsigned seed = 0;
  for (const bool a_signed : {false, true})
    for (const bool b_signed : {false, true})
      for (const auto zeros : {Form::Zeros::kNone, Form::Zeros::kOne, Form::Zeros::kPerColumn})
        for (const bool a_zero : {false, true})
          for (const auto& [k, n] : {std::pair{1, 1}, {3, 33}, {64, 32}, {66, 65}, {133, 31}})
            for (const std::int64_t rows : {1, 2, 13})
              expect_exact({rows, k, n, a_signed, b_signed, zeros, a_zero}, ++seed);
}

/// Matrices that just fit into what is widened for many rows, and that do not, on each instruction set.
TEST(ByteProduct, IsExactForManyRowsOfAnyLength) {
  for (const std::int64_t k : {1536, 1537, 3072, 3073, 6144, 6145})
    expect_exact({50, k, 33, true, true, Form::Zeros::kPerColumn, true}, 4);
}

TEST(ByteProduct, IsExactForAnyNumberOfRows) {
  for (std::int64_t rows = 0; rows <= 65; ++rows)
    for (const std::int64_t k : {100, 101})
      expect_exact({rows, k, 37, false, true, Form::Zeros::kPerColumn}, 3);
  expect_exact({300, 70, 40, true, false, Form::Zeros::kOne}, 4);  // several parts
}

/// Around the 16 rows and 64 elements of tiles, and the 128 rows of a part.
TEST(ByteProduct, IsExactForTilesOfAnyHeightAndDepth) {
  for (const std::int64_t rows : {4, 5, 8, 15, 16, 17, 31, 32, 33, 48, 95, 127, 128, 129, 160, 257})
    for (const std::int64_t k : {28, 29, 60, 63, 64, 65, 116, 128, 185, 190, 192, 258})
      for (const bool is_signed : {false, true})
        expect_exact({rows, k, 45, is_signed, true, Form::Zeros::kPerColumn, true}, 3);
}

TEST(ByteProduct, IsExactForAnyWidth) {
  for (std::int64_t k = 1; k <= 80; ++k) expect_exact({7, k, 5, k % 2 == 0}, 5);
  for (std::int64_t k = 1; k <= 80; ++k)
    expect_exact({2, k, 3, k % 2 == 0, true, Form::Zeros::kOne}, 7);
  for (std::int64_t n = 1; n <= 70; ++n)
    for (const std::int64_t rows : {3, 27})
      expect_exact({rows, 9, n, false, n % 2 == 0, Form::Zeros::kPerColumn}, 6);
}

/// Rows with zeros after them are read where they are.
TEST(ByteProduct, IsExactForRowsFilledUpToWords) {
  for (const bool is_signed : {false, true})
    for (const std::int64_t k : {1, 25, 27, 64, 70})
      for (const std::int64_t n : {8, 16, 40}) {
        OneThread workers;
        const Case one({27, k, n, is_signed, false, Form::Zeros::kPerColumn}, 9);
        Packed packed(one);
        const std::int64_t stride = (k + 3) / 4 * 4;
        std::vector<std::uint8_t> a(static_cast<std::size_t>(27 * stride));
        for (std::int64_t row = 0; row < 27; ++row)
          std::copy_n(one.a.begin() + row * k, k, a.begin() + row * stride);
        std::vector<std::int32_t> result(static_cast<std::size_t>(27 * n));
        packed.product.a = a.data();
        packed.product.a_stride = stride;
        packed.product.sums = result.data();
        byte_product(packed.product, workers);
        EXPECT_EQ(result, sums(one, workers)) << name_of(one.form);
        for (std::int64_t i = 0; i < 27 * n; ++i)
          ASSERT_EQ(result[static_cast<std::size_t>(i)], one.sum(i / n, i % n));
      }
}

/// All elements at the ends of their ranges: sums of pairs leave 16 bits, and saturate where those are used.
TEST(ByteProduct, HoldsTheLargestSums) {
  OneThread workers;
  for (const auto& [a, b] : {std::pair{255, 127}, {255, 128}, {0, 128}, {128, 128}})
    for (const bool is_signed : {false, true})
      for (const std::int64_t rows : {1, 6, 12}) {
        Case one({rows, 512, 32, is_signed, true, Form::Zeros::kNone, false}, 1);
        std::ranges::fill(one.a, static_cast<std::uint8_t>(a));
        std::ranges::fill(one.b, static_cast<std::uint8_t>(b));
        for (const std::int32_t sum : sums(one, workers)) ASSERT_EQ(sum, one.sum(0, 0));
      }
}

/// Elements as trained networks have them: few pairs of them pass 16 bits.
void make_small(Case& one, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> some(0, 22);
  const int flip = one.form.b_signed ? 0 : 128;
  for (std::uint8_t& byte : one.b) {
    const int value = static_cast<int>(std::lround(std::clamp(some(random), -128.0F, 127.0F)));
    byte = static_cast<std::uint8_t>(value + flip);
  }
}

TEST(ByteProduct, IsExactForManyRowsOfSmallElements) {
  unsigned seed = 0;
  for (const bool a_signed : {false, true})
    for (const bool b_signed : {false, true})
      for (const auto zeros : {Form::Zeros::kNone, Form::Zeros::kPerColumn})
        for (const auto& [k, n] : {std::pair{1, 1}, {64, 8}, {66, 65}, {133, 31}, {1030, 9}})
          for (const std::int64_t rows : {48, 53, 125}) {
            Case one({rows, k, n, a_signed, b_signed, zeros, true}, ++seed);
            make_small(one, seed);
            expect_exact(one);
          }
}

TEST(ByteProduct, IsExactForPairsAtTheEndsOf16Bits) {
  for (const auto& [first, second] : {std::pair{64, 64},
                                      {127, 1},
                                      {127, 2},
                                      {127, 127},
                                      {-128, 0},
                                      {-127, -1},
                                      {-128, -1},
                                      {-64, -65},
                                      {-128, -128},
                                      {127, -128}})
    for (const bool everywhere : {false, true}) {
      Case one({50, 64, 40, false, true, Form::Zeros::kNone, false}, 1);
      make_small(one, 1);
      std::ranges::fill(one.a, std::uint8_t{255});
      for (std::int64_t k = 0; k < 64; k += everywhere ? 2 : 22)
        for (std::int64_t n = 0; n < 40; n += everywhere ? 1 : 13) {
          const auto at = static_cast<std::size_t>(k * 40 + n);
          one.b[at] = static_cast<std::uint8_t>(first);
          one.b[at + 40] = static_cast<std::uint8_t>(second);
        }
      expect_exact(one);
    }
}

/// Four elements times bytes that just fit into 16 bits, and that do not, among small ones.
TEST(ByteProduct, IsExactForStepsAtTheEndsOf16Bits) {
  for (const auto& [element, byte] : {std::pair{127, 64},
                                      {127, 65},
                                      {-128, 63},
                                      {-128, 64},
                                      {-128, 65},
                                      {82, 99},
                                      {82, 100},
                                      {127, 255}})
    for (const std::int64_t k : {16, 60, 64, 600})
      for (const std::int64_t rows : {25, 54, 250}) {
        Case one({rows, k, 40, false, true, Form::Zeros::kPerColumn, true}, 1);
        make_small(one, 1);
        for (std::uint8_t& a : one.a) a = a % 100;
        const std::int64_t first = k / 16 * 8;
        for (std::int64_t i = first; i < first + 8; ++i)
          for (std::int64_t n = 0; n < 40; n += 3)
            one.b[static_cast<std::size_t>(i * 40 + n)] = static_cast<std::uint8_t>(element);
        for (std::int64_t row = 3; row < rows; row += 7)
          std::fill_n(one.a.begin() + row * k + first, 8, static_cast<std::uint8_t>(byte));
        expect_exact(one);
      }
}

/// Rows and matrices with steps beyond 16 bits anywhere.
TEST(ByteProduct, IsExactForManyRowsOfSmallBytes) {
  std::mt19937 random(3);
  for (const int most : {40, 120, 200})
    for (const std::int64_t k : {8, 12, 64, 260, 1000})
      for (const std::int64_t rows : {24, 48, 241}) {
        Case one({rows, k, 57, false, false, Form::Zeros::kOne, true}, 5);
        make_small(one, 5);
        for (std::uint8_t& a : one.a)
          a = random() % 200 == 0 ? 255 : static_cast<std::uint8_t>(a % most);
        expect_exact(one);
      }
}

TEST(ByteProduct, IsExactForManyRowsOfLongDepth) {
  Case one({48, 16390, 9, true, true, Form::Zeros::kNone, true}, 1);
  make_small(one, 1);
  expect_exact(one);
}

/// Files of earlier builds have none.
TEST(ByteProduct, IsExactWithoutLimits) {
  for (const std::int64_t rows : {1, 7, 48}) {
    Case one({rows, 200, 41, false, true, Form::Zeros::kPerColumn, true, false}, 2);
    make_small(one, 2);
    expect_exact(one);
  }
}

/// Of 16 x 32 with (row, element) in column 20 and zeros: the limits of two steps of the second half, of fours and of pairs.
std::vector<int> limits_of(const std::vector<std::pair<int, int>>& elements) {
  const ByteMatrix matrix{.k = 16, .n = 32, .limits = true};
  std::vector<std::uint8_t> b(static_cast<std::size_t>(matrix.k * matrix.n));
  for (const auto& [k, value] : elements)
    b[static_cast<std::size_t>(k * matrix.n + 20)] = static_cast<std::uint8_t>(value);
  const std::uint64_t bytes = packed_bytes(matrix);
  const Aligned packed = aligned(bytes);
  pack(matrix, {.is_signed = true, .values = b.data()}, packed.get());
  const std::uint64_t first = 4 * kByteColumns * 4 + kByteColumns * 4;
  EXPECT_EQ(bytes, first + 128);
  std::vector<int> limits;
  for (std::uint64_t i = first; i < first + 8; ++i) limits.push_back(static_cast<int>(packed[i]));
  EXPECT_EQ(std::vector<int>(limits.begin(), limits.begin() + 4), std::vector<int>(4, 255));
  return {limits.begin() + 4, limits.end()};
}

TEST(ByteMatrix, HasLimitsOfTheBytesThatFitInto16Bits) {
  using testing::ElementsAre;
  EXPECT_THAT(limits_of({}), ElementsAre(255, 255, 255, 255));
  // Four elements of 60 are 240: 32767 / 240 = 136; pairs of them fit.
  EXPECT_THAT(limits_of({{0, 60}, {1, 60}, {4, 60}, {5, 60}}), ElementsAre(136, 255, 255, 255));
  // So do they with elements of both signs between them, or with those of the other sum.
  EXPECT_THAT(limits_of({{0, 60}, {1, 60}, {4, -60}, {5, -60}}), ElementsAre(255, 255, 255, 255));
  EXPECT_THAT(limits_of({{0, 60}, {1, 60}, {6, 60}, {7, 60}}), ElementsAre(255, 255, 255, 255));
  // A pair of more than 128 does not: 32767 / 254 = 129.
  EXPECT_THAT(limits_of({{8, 127}, {9, 127}}), ElementsAre(255, 129, 255, 129));
  EXPECT_THAT(limits_of({{10, -128}, {11, -128}, {14, -128}, {15, -128}}),
              ElementsAre(255, 63, 255, 127));
  EXPECT_THAT(limits_of({{8, 64}, {9, 64}, {12, 1}}), ElementsAre(255, 254, 255, 255));
}

TEST(ByteProduct, WrapsAroundAt32Bits) {
  OneThread workers;
  Case one({1, 70000, 1, false, false, Form::Zeros::kNone, false}, 1);
  std::ranges::fill(one.a, std::uint8_t{255});
  std::ranges::fill(one.b, std::uint8_t{255});
  EXPECT_EQ(sums(one, workers)[0],
            static_cast<std::int32_t>(static_cast<std::uint32_t>(70000LL * 255 * 255)));
}

/// Calls tasks in another order than their own.
class Backwards final : public Workers {
 public:
  void parallel_for(std::int64_t count, Task task) override {
    for (std::int64_t i = count; i-- > 0;) task(i);
  }
};

TEST(ByteProduct, DoesNotDependOnWorkers) {
  for (const std::int64_t rows : {1, 250}) {
    const Case one({rows, 1402, 1300, false, true, Form::Zeros::kOne}, 8);
    OneThread one_thread;
    Backwards backwards;
    StartedThreads threads(4);
    const auto expected = sums(one, one_thread);
    EXPECT_EQ(sums(one, backwards), expected);
    EXPECT_EQ(sums(one, threads), expected);
  }
}

TEST(ByteProduct, DoesNotDependOnLanes) {
  OneThread one_thread;
  Backwards backwards;
  StartedThreads threads(4);
  for (const std::int64_t rows : {48, 49, 75, 250, 700})
    for (const bool a_signed : {false, true}) {
      Case one({rows, 386, 290, a_signed, true, Form::Zeros::kPerColumn}, 8);
      make_small(one, 8);
      const auto expected = sums(one, one_thread);
      for (const std::int64_t lanes : {2, 3, 7, 1000}) {
        EXPECT_EQ(sums(one, threads, lanes), expected) << rows << " rows, " << lanes << " lanes";
        EXPECT_EQ(sums(one, backwards, lanes), expected);
      }
    }
}

TEST(ByteProduct, OfTilesWritesTheirColumnsAlone) {
  OneThread workers;
  for (const std::int64_t rows : {1, 3, 70}) {
    const Case one({rows, 90, 100, false, true, Form::Zeros::kNone}, 8);
    Packed packed(one);
    const auto all = sums(one, workers);
    for (const auto& [first, tiles] : {std::pair{0, 1}, {1, 2}, {2, 2}, {3, 1}}) {
      std::vector<std::int32_t> some(all.size(), 77);
      packed.product.sums = some.data();
      packed.product.first_tile = first;
      packed.product.tiles = tiles;
      byte_product(packed.product, workers);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto tile = static_cast<std::int64_t>(i) % 100 / kByteColumns;
        ASSERT_EQ(some[i], tile >= first && tile < first + tiles ? all[i] : 77) << i;
      }
    }
  }
}

/// Rows where they lie: in two lines, of three segments each.
TEST(ByteProduct, OfRowsInLinesIsThatOfTheRowsOneByOne) {
  if (!takes_lines()) GTEST_SKIP() << "rows are taken one after another here";
  OneThread workers;
  constexpr std::int64_t kLine = 29, kSegment = 8, kStep = 4, kPitch = 400;
  for (const std::int64_t columns : {5, 16, 40, 64})
    for (const bool bytes : {false, true}) {
      Case one({2 * kLine, 3 * kSegment, columns, false, true, Form::Zeros::kNone}, 5);
      std::vector<std::uint8_t> image(static_cast<std::size_t>(4 * kPitch + (kLine - 1) * kStep +
                                                               kSegment));  // not a byte more
      std::mt19937 random(3);
      std::ranges::generate(image, [&] { return static_cast<std::uint8_t>(random()); });
      for (std::size_t i = 0; i < one.a.size(); ++i) {
        const auto row = static_cast<std::int64_t>(i) / one.form.k;
        const auto k = static_cast<std::int64_t>(i) % one.form.k;
        one.a[i] = image[static_cast<std::size_t>((row / kLine * 2 + k / kSegment) * kPitch +
                                                  row % kLine * kStep + k % kSegment)];
      }
      const auto result = [&](bool in_lines) {
        Packed packed(one);
        const auto count = static_cast<std::size_t>(one.form.rows * columns);
        std::vector<float> reals(count);
        std::vector<std::uint8_t> rounded(count);
        packed.product.out = bytes ? nullptr : reals.data();
        packed.product.bytes = bytes ? rounded.data() : nullptr;
        packed.product.steps = {.scale = 41.0F, .zero = 128, .least = -128, .most = 127};
        packed.product.b_scales = one.scales.data();
        packed.product.scale_per_column = true;
        if (in_lines) {
          packed.product.a = image.data();
          packed.product.a_stride = kStep;
          packed.product.lines = {
              .rows = kLine, .stride = 2 * kPitch, .segments = 3, .segment_stride = kPitch};
        }
        byte_product(packed.product, workers);
        return std::pair(reals, rounded);
      };
      EXPECT_EQ(result(true), result(false)) << columns << " columns";
    }
}

/// Each operation rounds once, in the order in which the operators of a model come.
TEST(ByteProduct, MakesRealNumbersOfItsSums) {
  OneThread workers;
  for (const bool per_column : {false, true})
    for (const bool with_bias : {false, true})
      for (const bool with_scale : {false, true})
        for (const auto& [rows, zeros] :
             {std::pair{1, Form::Zeros::kOne}, {14, Form::Zeros::kOne}, {27, Form::Zeros::kNone}}) {
          Case one({rows, 50, 45, false, true, zeros}, 11);
          if (zeros == Form::Zeros::kNone) make_small(one, 11);
          Packed packed(one);
          std::vector<float> out(static_cast<std::size_t>(rows) * 45);
          const float a_scale = 0.37F;
          packed.product.out = out.data();
          packed.product.a_scale = with_scale ? &a_scale : nullptr;
          packed.product.b_scales = one.scales.data();
          packed.product.scale_per_column = per_column;
          packed.product.bias = with_bias ? one.bias.data() : nullptr;
          byte_product(packed.product, workers);
          for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t n = i % 45;
            const float scale = one.scales[per_column ? n : 0] * (with_scale ? a_scale : 1.0F);
            const volatile float scaled =
                static_cast<float>(
                    one.sum(static_cast<std::int64_t>(i / 45), static_cast<std::int64_t>(n))) *
                scale;
            EXPECT_EQ(out[i], with_bias ? scaled + one.bias[n] : scaled) << i;
          }
        }
}

/// Expects bytes to be those of the real numbers of the product, divided and rounded one by one.
void expect_bytes(const Case& one, const ByteSteps& steps) {
  OneThread workers;
  Packed packed(one);
  std::vector<float> reals(static_cast<std::size_t>(one.form.rows * one.form.n));
  std::vector<std::uint8_t> bytes(reals.size() + 1, 77);
  packed.product.b_scales = one.scales.data();
  packed.product.scale_per_column = true;
  packed.product.bias = one.bias.data();
  packed.product.out = reals.data();
  byte_product(packed.product, workers);
  packed.product.bytes = bytes.data();
  packed.product.steps = steps;
  byte_product(packed.product, workers);
  const auto least = static_cast<float>(steps.least), most = static_cast<float>(steps.most);
  for (std::size_t i = 0; i < reals.size(); ++i) {
    const float x = reals[i] / steps.scale;
    const float held = std::isnan(x) ? least : std::clamp(x, least, most);
    const int expected = static_cast<int>(std::nearbyint(held)) + steps.zero;
    ASSERT_EQ(bytes[i], static_cast<std::uint8_t>(expected))
        << name_of(one.form) << " at " << i << ": " << x;
  }
  EXPECT_EQ(bytes.back(), 77);
}

/// Steps of u8 and s8, some with bounds between the ends of the type, and one so small that most results are beyond them.
TEST(ByteProduct, MakesBytesOfItsRealNumbers) {
  const ByteSteps all[] = {{.scale = 40.0F, .zero = 128, .least = -128, .most = 127},
                           {.scale = 37.7F, .zero = -3, .least = -125, .most = 130},
                           {.scale = 33.0F, .zero = 0, .least = 0, .most = 60},
                           {.scale = 0.25F, .zero = 200, .least = -200, .most = 55}};
  for (const ByteSteps& steps : all)
    for (const std::int64_t n : {1, 7, 8, 32, 45, 70})
      for (const std::int64_t rows : {1, 6, 27})
        for (const bool is_signed : {false, true})
          for (const Form::Zeros zeros : {Form::Zeros::kNone, Form::Zeros::kOne})
            expect_bytes(Case({rows, 50, n, is_signed, true, zeros}, 12), steps);
}

/// Sums of 0 to 255 times scales that put them at the middle between two bytes and around it, where rounding after
/// each operation decides.
TEST(ByteProduct, MakesBytesOfNumbersBetweenTwo) {
  const ByteSteps steps{.scale = 0.1F, .zero = 128, .least = -128, .most = 127};
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Case one({256, 1, 64, false, true, Form::Zeros::kNone, false}, 12);
    for (std::size_t i = 0; i < one.a.size(); ++i) one.a[i] = static_cast<std::uint8_t>(i);
    std::ranges::fill(one.b, std::uint8_t{1});
    for (std::size_t n = 0; n < one.scales.size(); ++n) {
      const float odd = 0.5F * static_cast<float>(2 * (random() % 60) + 1);
      const float step = steps.scale / static_cast<float>(1 + random() % 8);
      one.scales[n] = std::nextafter(step * odd, n % 3 == 0 ? 0.0F : 100.0F);
      one.bias[n] = -one.scales[n] * static_cast<float>(random() % 256) +
                    (n % 2 == 0 ? step : static_cast<float>(random() % 1000) * 0.05F);
    }
    expect_bytes(one, steps);
  }
}

/// Scales and biases by which a factor or an addend would overflow, underflow or say nothing.
TEST(ByteProduct, MakesBytesOfExtremeNumbers) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (const float scale : {0.0F, 1e-45F, 1e-30F, 1e-3F, -0.2F, 1e15F, 3e38F, kInfinity, kNaN})
    for (const float bias : {0.0F, -0.0F, 1e-40F, 1.5F, -700.0F, 1e6F, -3e38F, kInfinity, kNaN})
      for (const float step : {1e-44F, 1e-25F, 0.05F, 3.0F, 1e30F}) {
        Case one({26, 20, 33, false, true, Form::Zeros::kNone}, 12);
        std::ranges::fill(one.scales, scale);
        std::ranges::fill(one.bias, bias);
        expect_bytes(one, {.scale = step, .zero = 3, .least = -3, .most = 252});
      }
}

TEST(ByteMatrix, HasNumbersThatKernelsTake) {
  EXPECT_TRUE(is_valid(ByteMatrix{.k = 10, .n = 10}));
  for (const std::int64_t size :
       {std::int64_t{-1}, std::int64_t{0}, (std::int64_t{1} << 31) + 1, INT64_MAX, INT64_MIN}) {
    EXPECT_FALSE(is_valid(ByteMatrix{.k = size, .n = 10})) << size;
    EXPECT_FALSE(is_valid(ByteMatrix{.k = 10, .n = size})) << size;
  }
}

TEST(ByteMatrix, OfTheLargestSizesHasSizesThatFit) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const ByteMatrix largest{.k = kMost, .n = kMost, .zeros = true};
  EXPECT_EQ(packed_bytes(largest), (std::uint64_t{1} << 26) * ((std::uint64_t{1} << 36) + 256));
  EXPECT_EQ(scratch_bytes(largest, INT64_MAX), std::nullopt);
  EXPECT_GT(scratch_bytes(largest, 3).value(), 6 * std::uint64_t{kMost});
  const ByteMatrix limited{.k = kMost, .n = kMost, .limits = true};
  EXPECT_EQ(packed_bytes(limited), (std::uint64_t{1} << 26) * ((std::uint64_t{1} << 36) + 128) +
                                       (std::uint64_t{1} << 56) + 64);
}

}  // namespace
}  // namespace ctxgen::kernels
