#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
#include "matrix_conv_cases.h"
#include "program_maker.h"

// Kind byte_conv: parameters and operands that do not fit each other. tests/ops/dnnl has the numbers.
namespace ctxgen::onednn::test {
namespace {

using ctxgen::test::code_of;

Tensor counted_bytes(const Dims& dims) {
  Tensor tensor = Tensor::allocate(DataType::kUint8, dims).value();
  std::mt19937 random(2);
  for (std::byte& byte : tensor.mutable_bytes()) byte = static_cast<std::byte>(random());
  return tensor;
}

struct ConvOfBytes {
  Dims src = {1, 3, 8, 8};
  std::int64_t k = 27, n = 5;
  IntList kernel = {3, 3}, strides = {}, pads = {}, dilations = {};
  std::optional<std::int64_t> bytes = {};
  Dims bias = {5}, zero = {};
};

Maker byte_conv(const ConvOfBytes& c) {
  Maker maker(1);
  const kernels::ByteMatrix matrix{.k = 27, .n = 5};
  const std::int64_t bytes = c.bytes.value_or(static_cast<std::int64_t>(packed_bytes(matrix)));
  Tensor bias = Tensor::allocate(DataType::kFloat, c.bias).value();
  for (float& x : bias.mutable_elements<float>()) x = 1;
  Tensor one = Tensor::allocate(DataType::kFloat, {}).value();
  one.mutable_elements<float>()[0] = 0.5F;
  maker.output(maker.op(
      kind::kByteConv,
      {maker.input(counted_bytes(c.src)), maker.weight(counted_bytes({bytes})),
       maker.input(counted_bytes(c.zero)), maker.input(one), maker.weight(one), maker.weight(bias)},
      {integer("k", c.k), integer("n", c.n), integer("zeros", 0), ints("kernel", c.kernel),
       ints("strides", c.strides), ints("dilations", c.dilations), ints("pads", c.pads)}));
  return maker;
}

auto code_of_conv(const ConvOfBytes& c) {
  Maker maker = byte_conv(c);
  return code_of(compile_and_run(maker));
}

TEST(ExecByteConv, RefusesWhatDoesNotFit) {
  expect_refused_windows<ConvOfBytes>(code_of_conv);
  EXPECT_EQ(code_of_conv({.bytes = 64}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.zero = {2}}), ErrorCode::kInvalidGraph);
}

TEST(ExecByteConv, OfNoImagesIsEmpty) { expect_empty_result(byte_conv({.src = {0, 3, 8, 8}})); }

TEST(ExecByteConv, GivesTheSameOnSeveralThreads) {
  for (const Dims& src : {Dims{1, 3, 8, 8}, Dims{2, 3, 40, 50}})
    expect_same_on_two_threads(byte_conv({.src = src, .pads = {1, 1, 1, 1}}));
}

}  // namespace
}  // namespace ctxgen::onednn::test
