#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "matrix_conv_cases.h"
#include "program_maker.h"

// Kind low_bit_conv: parameters and operands that do not fit each other. tests/ops/dnnl has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;
using kernels::LowBitMatrix;

constexpr LowBitMatrix kWeights{.k = 27, .n = 5, .bits = 4, .block = 16};

Tensor packed_ones() {
  std::mt19937 random(3);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(kWeights.n * kWeights.blocks() * 8));
  for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
  const std::vector<float> scales(static_cast<std::size_t>(kWeights.n * kWeights.blocks()), 1.0F);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(kWeights));
  Tensor tensor = Tensor::allocate(DataType::kUint8, {bytes}).value();
  kernels::pack(kWeights, {.values = values.data(), .scales = scales.data()},
                tensor.mutable_bytes().data());
  return tensor;
}

struct LowBitConv {
  Dims src = {1, 3, 8, 8};
  std::int64_t k = 27, n = 5, bits = 4, block = 16;
  IntList kernel = {3, 3}, strides = {}, pads = {}, dilations = {};
  std::optional<Tensor> packed = {};
  Dims bias = {5};
  std::string zeros = "middle", compute = "float";
};

Maker low_bit_conv(const LowBitConv& c) {
  Maker maker(1);
  Tensor bias = Tensor::allocate(DataType::kFloat, c.bias).value();
  for (float& x : bias.mutable_elements<float>()) x = 1;
  maker.output(maker.op(
      kind::kLowBitConv,
      {maker.input(c.src), maker.weight(c.packed.value_or(packed_ones())), maker.weight(bias)},
      {integer("k", c.k), integer("n", c.n), integer("bits", c.bits), integer("block", c.block),
       text("zeros", c.zeros), text("compute", c.compute), ints("kernel", c.kernel),
       ints("strides", c.strides), ints("dilations", c.dilations), ints("pads", c.pads)}));
  return maker;
}

auto code_of_conv(const LowBitConv& c) {
  Maker maker = low_bit_conv(c);
  return code_of(compile_and_run(maker));
}

TEST(ExecLowBitConv, RefusesWhatDoesNotFit) {
  expect_refused_windows<LowBitConv>(code_of_conv);
  EXPECT_EQ(code_of_conv({.bits = 3}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.bits = 8}), ErrorCode::kInvalidGraph);
  for (const std::int64_t block : {0, 8, 48, 64})
    EXPECT_EQ(code_of_conv({.block = block}), ErrorCode::kInvalidGraph) << block;
  EXPECT_EQ(code_of_conv({.zeros = "integer"}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.zeros = "other"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_conv({.compute = "int8"}), ErrorCode::kUnsupported);
  EXPECT_EQ(code_of_conv({.packed = Tensor::allocate(DataType::kUint8, {64}).value()}),
            ErrorCode::kInvalidGraph);
  const auto bytes = static_cast<std::int64_t>(kernels::packed_bytes(kWeights));
  EXPECT_EQ(code_of_conv({.packed = Tensor::allocate(DataType::kInt8, {bytes}).value()}),
            ErrorCode::kUnsupported);
}

TEST(ExecLowBitConv, OfNoImagesIsEmpty) {
  expect_empty_result(low_bit_conv({.src = {0, 3, 8, 8}}));
}

TEST(ExecLowBitConv, GivesTheSameOnSeveralThreads) {
  for (const Dims& src : {Dims{1, 3, 8, 8}, Dims{2, 3, 40, 50}})
    expect_same_on_two_threads(low_bit_conv({.src = src, .pads = {1, 1, 1, 1}}));
}

}  // namespace
}  // namespace ctxgen::onednn::test
