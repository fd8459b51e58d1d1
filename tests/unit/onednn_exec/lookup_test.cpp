#include <algorithm>
#include <cstring>
#include <format>
#include <numeric>
#include <span>

#include <gtest/gtest.h>

#include "ctxgen/base/half.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "program_maker.h"

// Kind lookup: slices of a table by indices that the run brings.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

template <class Index>
Tensor indices_of(const Dims& dims, const std::vector<Index>& values) {
  constexpr DataType kType = sizeof(Index) == 4 ? DataType::kInt32 : DataType::kInt64;
  Tensor tensor = Tensor::allocate(kType, dims).value();
  std::ranges::copy(std::as_bytes(std::span(values)), tensor.mutable_bytes().begin());
  return tensor;
}

/// A table whose element i has the low bytes of the integer i.
Tensor numbered_table(DataType type, const Dims& dims) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  const std::size_t width =
      tensor.bytes().size() / static_cast<std::size_t>(tensor.element_count());
  for (std::uint32_t i = 0; i < tensor.element_count(); ++i)
    std::memcpy(tensor.mutable_bytes().data() + i * width, &i, width);
  return tensor;
}

/// One lookup; the result has the type of the table.
Maker lookup(Tensor table, Tensor indices) {
  Maker maker(1);
  const DataType type = table.type();
  const Operand weight = maker.weight(std::move(table));
  const Operand found = maker.op(kind::kLookup, {weight, maker.input(std::move(indices))});
  maker.program().values[found.index].type = type;
  maker.output(found);
  return maker;
}

void expect_slices(DataType type, const Tensor& indices, const std::vector<std::uint32_t>& slices,
                   const Dims& result_dims) {
  Maker maker = lookup(numbered_table(type, Dims{10, 3, 7}), indices);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), result_dims);
  const auto table = maker.weights()[0].bytes(), found = results->front().bytes();
  const std::size_t slice = table.size() / 10;
  ASSERT_EQ(found.size(), slices.size() * slice);
  for (std::size_t i = 0; i < slices.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(found.subspan(i * slice, slice),
                                   table.subspan(slices[i] * slice, slice)))
        << i;
}

TEST(ExecLookup, GivesTheSlicesThatIndicesName) {
  for (const DataType type : {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                              DataType::kUint8, DataType::kInt8}) {
    expect_slices(type, indices_of<std::int64_t>({2, 2}, {9, 0, -1, -10}), {9, 0, 9, 0},
                  Dims{2, 2, 3, 7});
    expect_slices(type, indices_of<std::int32_t>({3}, {4, -10, 4}), {4, 0, 4}, Dims{3, 3, 7});
    expect_slices(type, indices_of<std::int32_t>({}, {8}), {8}, Dims{3, 7});
  }
}

TEST(ExecLookup, GivesTheSameOnSeveralThreads) {
  std::vector<std::int64_t> indices(4000);
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<std::uint32_t> slices;
  for (std::int64_t& index : indices) slices.push_back(static_cast<std::uint32_t>(index %= 10));
  Maker maker = lookup(numbered_table(DataType::kFloat, Dims{10, 21}),
                       indices_of<std::int64_t>({4000}, indices));
  const Outputs one = compile_and_run(maker).value();
  const Packed packed = pack(maker, {maker.input_dims()}).value();
  const auto executable =
      loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
  EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
}

TEST(ExecLookup, FailsWhereAnIndexIsOutside) {
  for (const std::int64_t index : {std::int64_t{10}, std::int64_t{-11}, INT64_MAX, INT64_MIN}) {
    Maker maker = lookup(numbered_table(DataType::kFloat, {10, 4}),
                         indices_of<std::int64_t>({2}, {3, index}));
    const auto result = compile_and_run(maker);
    ASSERT_FALSE(result) << index;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find(std::format("index {} is outside of [-10, 9]", index)),
              std::string::npos)
        << result.error().message;
  }
}

TEST(ExecLookup, WidensNarrowTables) {
  const Tensor indices = indices_of<std::int32_t>({3}, {4, -10, 4});
  for (const DataType type : {DataType::kBfloat16, DataType::kFloat16}) {
    const bool brain = type == DataType::kBfloat16;
    const auto element = [&](std::size_t i) {
      return 0.5F * static_cast<float>(i);
    };  // both hold it
    Tensor table = Tensor::allocate(type, Dims{10, 19}).value();
    for (std::size_t i = 0; i < 190; ++i) {
      const std::uint16_t bits =
          brain ? float_to_bfloat16(element(i)) : float_to_float16(element(i));
      std::memcpy(table.mutable_bytes().data() + 2 * i, &bits, 2);
    }
    Maker maker = lookup(std::move(table), indices);
    maker.program().values.back().type = DataType::kFloat;
    const auto results = compile_and_run(maker);
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ(results->front().size(), 57U);
    for (std::size_t i = 0; i < 57; ++i)
      EXPECT_EQ((*results)[0][i], element((i / 19 == 1 ? 0 : 4 * 19) + i % 19)) << i;
  }
}

TEST(ExecLookup, OfNothingIsEmpty) {
  Maker maker =
      lookup(numbered_table(DataType::kFloat, {10, 4}), indices_of<std::int64_t>({0}, {}));
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{0, 4}));
}

TEST(ExecLookup, RefusesOtherTypesAndTables) {
  const Tensor indices = indices_of<std::int64_t>({2}, {3, 4});
  const auto code = [](Maker maker) { return code_of(compile_and_run(maker)); };
  EXPECT_EQ(code(lookup(numbered_table(DataType::kFloat, {}), indices)), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code(lookup(numbered_table(DataType::kFloat, {10, 4}),
                        numbered_table(DataType::kFloat, {2}))),
            ErrorCode::kUnsupported);
  EXPECT_EQ(code(lookup(numbered_table(DataType::kInt32, {10, 4}), indices)),
            ErrorCode::kUnsupported);
  Maker computed(2);  // the table is an input
  const Operand table = computed.input(Dims{10, 4});
  computed.output(computed.op(kind::kLookup, {table, computed.input(indices)}));
  EXPECT_EQ(code(std::move(computed)), ErrorCode::kUnsupported);
  Maker other = lookup(numbered_table(DataType::kUint8, {10, 4}), indices);
  other.program().values.back().type = DataType::kFloat;  // the result's type is the table's
  EXPECT_EQ(code(std::move(other)), ErrorCode::kUnsupported);
  other = lookup(numbered_table(DataType::kBfloat16, {10, 4}), indices);
  other.program().values.back().type = DataType::kFloat16;  // or f32
  EXPECT_EQ(code(std::move(other)), ErrorCode::kUnsupported);
}

/// A value of 64-bit integers may leave a program as it came.
TEST(ExecLookup, IndicesMayBeOutputsToo) {
  Maker maker = lookup(numbered_table(DataType::kFloat, {10, 4}),
                       indices_of<std::int64_t>({1, 2, 2}, {3, -4, 5, 6}));
  maker.output(Operand::value(maker.program().inputs[0]));
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_TRUE(std::ranges::equal((*results)[1].bytes(), maker.inputs()[0].bytes()));
}

}  // namespace
}  // namespace ctxgen::onednn::test
