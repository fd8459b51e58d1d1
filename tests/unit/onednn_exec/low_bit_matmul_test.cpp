#include <cmath>
#include <cstring>
#include <format>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/ctxfile/op_rounding.h"
#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kind low_bit_matmul: products with matrices of few bits. tests/unit/kernels has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
using kernels::LowBitMatrix;

/// Bytes in the packed order; the scales in them are 1.
Tensor packed_ones(const LowBitMatrix& matrix) {
  std::mt19937 random(3);
  std::vector<std::uint8_t> values(
      static_cast<std::size_t>(matrix.n * matrix.blocks() * matrix.block * matrix.bits / 8));
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
  const std::vector<float> scales(static_cast<std::size_t>(matrix.n * matrix.blocks()), 1.0F);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(matrix));
  Tensor tensor = Tensor::allocate(DataType::kUint8, {bytes}).value();
  kernels::pack(matrix, {.values = values.data(), .scales = scales.data()},
                tensor.mutable_bytes().data());
  return tensor;
}

/// Element of a packed matrix with scales of 1.
double element_of(const Tensor& packed, const LowBitMatrix& m, std::int64_t k, std::int64_t n) {
  const std::int64_t words = m.block * m.bits / 32, tile = n / 32;
  const std::int64_t block = tile * m.blocks() + k / m.block;
  const std::int64_t in_block = k % m.block, per_word = 32 / m.bits, e = in_block % per_word;
  const std::int64_t word = block * (words + 1) * 32 + in_block / per_word * 32 + n % 32;
  std::uint32_t bits = 0;
  std::memcpy(&bits, packed.bytes().data() + word * 4, 4);
  const std::uint32_t q = (bits >> (e % 4 * 8 + e / 4 * m.bits)) & ((1U << m.bits) - 1);
  return static_cast<double>(q) - static_cast<double>(1 << (m.bits - 1));
}

struct Low {
  LowBitMatrix matrix{.k = 70, .n = 37, .bits = 4, .block = 32};
  Dims src = {2, 3, 70};
  Dims bias = {37};
  std::string zeros = "middle", compute = "float";
};

Maker product(const Low& low, const std::optional<Tensor>& packed = std::nullopt) {
  Maker maker(1);
  const LowBitMatrix& m = low.matrix;
  const Operand src = maker.input(low.src);
  const Operand matrix = maker.weight(packed ? *packed : packed_ones(m));
  const Operand bias = low.bias.empty() ? Operand{} : maker.weight(low.bias);
  std::vector<Operand> inputs{src, matrix};
  if (!low.bias.empty()) inputs.push_back(bias);
  maker.output(maker.op(
      kind::kLowBitMatmul, inputs,
      {integer("k", m.k), integer("n", m.n), integer("bits", m.bits), integer("block", m.block),
       text("zeros", low.zeros), text("compute", low.compute)}));
  return maker;
}

void expect_product(const Low& low) {
  Maker maker = product(low);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  const LowBitMatrix& m = low.matrix;
  Dims expected = low.src;
  expected[expected.size() - 1] = m.n;
  ASSERT_EQ(results->front().dims(), expected);
  const auto x = maker.inputs()[0].elements<float>();
  const auto y = results->front().elements<float>();
  // Rounding a block of 8-bit integers moves each number by up to a 254th of the largest.
  const double tolerance = low.compute == "int8" ? 1.0 / 254 : 1e-6;
  for (std::int64_t i = 0; i < std::ssize(y); ++i) {
    double sum =
        low.bias.empty()
            ? 0
            : double{maker.weights()[1].elements<float>()[static_cast<std::size_t>(i % m.n)]};
    double size = std::abs(sum);
    for (std::int64_t k = 0; k < m.k; ++k) {
      const double weight = element_of(maker.weights()[0], m, k, i % m.n);
      sum += double{x[static_cast<std::size_t>(i / m.n * m.k + k)]} * weight;
      size += std::abs(weight);
    }
    ASSERT_NEAR(double{y[static_cast<std::size_t>(i)]}, sum, tolerance * size) << i;
  }
}

TEST(ExecLowBitMatmul, MultipliesRowsOfAnyRank) {
  for (const char* compute : {"float", "int8"})
    for (const std::int64_t bits : {2, 4, 8}) {
      SCOPED_TRACE(std::format("{} {}", compute, bits));
      Low low{.matrix = {.k = 70, .n = 37, .bits = bits, .block = 32}, .compute = compute};
      expect_product(low);
      low.bias = {};
      for (const Dims& src : {Dims{70}, Dims{1, 70}, Dims{20, 70}, Dims{2, 1, 2, 70}}) {
        low.src = src;
        expect_product(low);
      }
    }
}

TEST(ExecLowBitMatmul, OfNoRowsIsEmpty) {
  Maker maker = product({.src = {2, 0, 70}});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{2, 0, 37}));
}

/// One stored form for all shapes, instruction sets and portable contexts, read where it is.
TEST(ExecLowBitMatmul, StoresItsMatrixOnceAndRepacksNothing) {
  for (const bool portable : {false, true}) {
    Maker maker = product({.compute = "int8"});
    const Packed packed = pack(maker, {{{1, 1, 70}}, {{4, 64, 70}}}, portable).value();
    for (const ProgramWeight& weight : packed.program.weights) EXPECT_EQ(weight.packed.size(), 1U);
    EXPECT_EQ(packed.blobs()(packed.program.weights[0].packed[0].blob.bin_index())->bytes.size(),
              maker.weights()[0].bytes().size());
    LoadStatistics statistics;
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{1}, &statistics).value();
    ASSERT_TRUE(run(*executable, maker.inputs()));  // a third shape
    EXPECT_EQ(executable->plan_statistics().repacked_bytes, 0U);
    EXPECT_EQ(statistics.repacked_bytes, 0U);
  }
}

TEST(ExecLowBitMatmul, GivesTheSameOnSeveralThreads) {
  for (const char* compute : {"float", "int8"})
    for (const std::int64_t rows : {1, 300}) {
      Maker maker = product({.matrix = {.k = 512, .n = 1100, .bits = 4, .block = 32},
                             .src = {rows, 512},
                             .bias = {1100},
                             .compute = compute});
      const Outputs one = compile_and_run(maker).value();
      const Packed packed = pack(maker, {maker.input_dims()}).value();
      const auto executable =
          loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
      EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
    }
}

/// With the bytes of a matrix of 70 x 37.
auto code_of_low(const Low& low, const std::optional<Tensor>& packed = std::nullopt) {
  Maker maker = product(low, packed ? *packed : packed_ones({70, 37, 4, 32}));
  return code_of(compile_and_run(maker));
}

TEST(ExecLowBitMatmul, RefusesWhatItHasNoKernelFor) {
  EXPECT_EQ(code_of_low({}), ctxgen::test::kOk);
  const auto form = [](LowBitMatrix matrix) { return code_of_low({.matrix = matrix}); };
  for (const std::int64_t bits : {-1, 0, 1, 3, 5, 6, 7, 9, 16})
    EXPECT_EQ(form({70, 37, bits, 32}), ErrorCode::kInvalidGraph) << bits;
  for (const std::int64_t block : {-32, 0, 1, 8, 24, 33, 512, 1 << 30})
    EXPECT_EQ(form({70, 37, 4, block}), ErrorCode::kInvalidGraph) << block;
  for (const std::int64_t size : {-1, 0, 71, 1 << 30}) {
    EXPECT_EQ(form({size, 37, 4, 32}), ErrorCode::kInvalidGraph) << size;
    EXPECT_EQ(form({70, size == 71 ? 65 : size, 4, 32}), ErrorCode::kInvalidGraph) << size;
  }
  EXPECT_EQ(code_of_low({.src = {2, 71}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({.src = {}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({.bias = {38}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({.bias = {1, 37}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({.zeros = "other"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_low({.compute = "other"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_low({.zeros = "integer"}), ErrorCode::kInvalidGraph);  // its zeros are missing
  EXPECT_EQ(code_of_low({.zeros = "float", .compute = "int8"}), ErrorCode::kInvalidGraph);
}

TEST(ExecLowBitMatmul, RefusesMatricesOfOtherTypesAndSizes) {
  const auto bytes = [](std::int64_t count) {
    return Tensor::allocate(DataType::kUint8, {count}).value();
  };
  const std::int64_t good = packed_ones({70, 37, 4, 32}).element_count();
  EXPECT_EQ(code_of_low({}, bytes(good - 64)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({}, bytes(good + 64)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({}, bytes(0)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({}, Tensor::allocate(DataType::kUint8, {good, 1}).value()),
            ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_low({}, Tensor::allocate(DataType::kInt8, {good}).value()),
            ErrorCode::kUnsupported);
  Maker computed(2);  // the matrix is an input
  const Operand src = computed.input(Dims{2, 70});
  computed.output(computed.op(kind::kLowBitMatmul, {src, computed.input(bytes(good))},
                              {integer("k", 70), integer("n", 37)}));
  EXPECT_EQ(code_of(compile_and_run(computed)), ErrorCode::kUnsupported);
}

TEST(ExecLowBitMatmul, CountsRoundingToIntegersAsQuantising) {
  const auto* rounds = dynamic_cast<const KnowsRounding*>(&loader());
  ASSERT_NE(rounds, nullptr);
  for (const bool int8 : {false, true}) {
    Maker maker = product({.compute = int8 ? "int8" : "float"});
    const OpRounding rounding = rounds->rounding_of(maker.program(), maker.program().ops[0]);
    EXPECT_EQ(rounding.quantises, int8);
    EXPECT_EQ(rounding.roundings, 70);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
