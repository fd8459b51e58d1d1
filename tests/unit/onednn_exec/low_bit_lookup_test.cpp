#include <algorithm>
#include <cstring>
#include <format>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kind low_bit_lookup: columns of packed matrices by indices that the run brings.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
using kernels::LowBitMatrix;

constexpr LowBitMatrix kTable{.k = 70, .n = 37, .bits = 4, .block = 32};

Tensor packed_table(const LowBitMatrix& matrix) {
  std::mt19937 random(5);
  std::vector<std::uint8_t> values(
      static_cast<std::size_t>(matrix.n * matrix.blocks() * matrix.block * matrix.bits / 8));
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
  std::vector<float> scales(static_cast<std::size_t>(matrix.n * matrix.blocks()));
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = 0.5F + static_cast<float>(i % 9);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(matrix));
  Tensor tensor = Tensor::allocate(DataType::kUint8, {bytes}).value();
  kernels::pack(matrix, {.values = values.data(), .scales = scales.data()},
                tensor.mutable_bytes().data());
  return tensor;
}

template <class Index>
Tensor places(const Dims& dims, const std::vector<Index>& values) {
  constexpr DataType kType = sizeof(Index) == 4 ? DataType::kInt32 : DataType::kInt64;
  Tensor tensor = Tensor::allocate(kType, dims).value();
  std::ranges::copy(std::as_bytes(std::span(values)), tensor.mutable_bytes().begin());
  return tensor;
}

Maker low_bit_lookup(Tensor indices, const LowBitMatrix& m = kTable,
                     const std::optional<Tensor>& packed = std::nullopt,
                     const char* zeros = "middle") {
  Maker maker(1);
  const Operand weight = maker.weight(packed ? *packed : packed_table(kTable));
  maker.output(maker.op(kind::kLowBitLookup, {weight, maker.input(std::move(indices))},
                        {integer("k", m.k), integer("n", m.n), integer("bits", m.bits),
                         integer("block", m.block), text("zeros", zeros)}));
  return maker;
}

void expect_columns(const Tensor& indices, const std::vector<std::int64_t>& columns) {
  Maker maker = low_bit_lookup(indices);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  Dims expected = indices.dims();
  expected.push_back(kTable.k);
  EXPECT_EQ(results->front().dims(), expected);
  std::vector<float> column(static_cast<std::size_t>(kTable.k));
  for (std::size_t i = 0; i < columns.size(); ++i) {
    kernels::unpack_column(kTable, maker.weights()[0].bytes().data(), columns[i], column.data());
    const auto found = results->front().elements<float>().subspan(i * column.size());
    EXPECT_TRUE(std::ranges::equal(found.first(column.size()), column)) << i;
  }
}

TEST(ExecLowBitLookup, GivesTheColumnsThatIndicesName) {
  expect_columns(places<std::int64_t>({2, 2}, {36, 0, -1, -37}), {36, 0, 36, 0});
  expect_columns(places<std::int32_t>({3}, {4, -37, 33}), {4, 0, 33});
  expect_columns(places<std::int32_t>({}, {8}), {8});
  expect_columns(places<std::int32_t>({0}, {}), {});
}

TEST(ExecLowBitLookup, GivesTheSameOnSeveralThreads) {
  std::vector<std::int64_t> indices(4000);
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<std::int64_t>(i * 7 % 37);
  Maker maker = low_bit_lookup(places<std::int64_t>({4000}, indices));
  const Outputs one = compile_and_run(maker).value();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto executable =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
  EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
}

TEST(ExecLowBitLookup, FailsWhereAnIndexIsOutside) {
  for (const std::int64_t index : {std::int64_t{37}, std::int64_t{-38}, INT64_MAX, INT64_MIN}) {
    Maker maker = low_bit_lookup(places<std::int64_t>({2}, {3, index}));
    const auto result = compile_and_run(maker);
    ASSERT_FALSE(result) << index;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(std::format("index {} is outside of [-37, 36]", index)),
              std::string::npos)
        << result.error().message;
  }
}

TEST(ExecLowBitLookup, RefusesOtherMatricesAndTypes) {
  const Tensor indices = places<std::int64_t>({2}, {3, 4});
  const auto code = [](Maker maker) { return code_of(compile_and_run(maker)); };
  EXPECT_EQ(code(low_bit_lookup(indices)), ctxgen::test::kOk);
  for (const LowBitMatrix& other :
       {LowBitMatrix{0, 37, 4, 32}, LowBitMatrix{70, 0, 4, 32}, LowBitMatrix{70, -1, 4, 32},
        LowBitMatrix{70, 37, 3, 32}, LowBitMatrix{70, 37, 4, 24}, LowBitMatrix{70, 65, 4, 32},
        LowBitMatrix{170, 37, 4, 32}, LowBitMatrix{1 << 30, 1 << 30, 8, 16}})
    EXPECT_EQ(code(low_bit_lookup(indices, other)), ErrorCode::kInvalidGraph) << other.k;
  EXPECT_EQ(code(low_bit_lookup(indices, kTable, std::nullopt, "integer")),
            ErrorCode::kInvalidGraph);  // its zero points are missing
  EXPECT_EQ(code(low_bit_lookup(indices, kTable, std::nullopt, "other")), ErrorCode::kUnsupported);
  const std::int64_t bytes = packed_table(kTable).element_count();
  EXPECT_EQ(
      code(low_bit_lookup(indices, kTable, Tensor::allocate(DataType::kInt8, {bytes}).value())),
      ErrorCode::kUnsupported);
  EXPECT_EQ(
      code(low_bit_lookup(indices, kTable, Tensor::allocate(DataType::kUint8, {bytes, 1}).value())),
      ErrorCode::kInvalidGraph);
  Tensor reals = Tensor::allocate(DataType::kFloat, {2}).value();
  std::ranges::fill(reals.mutable_elements<float>(), 1.0F);
  EXPECT_EQ(code(low_bit_lookup(reals)), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace ctxgen::onednn::test
