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
  kernels::ByteMatrix packed = {.k = 27, .n = 5};
  std::optional<std::int64_t> bytes = {};  // else those of `packed`
  Dims bias = {5}, zero = {};
  std::optional<std::int64_t> group = {};
  DataType result = DataType::kFloat;
  bool limits = false;
};

Maker byte_conv(const ConvOfBytes& c) {
  Maker maker(1);
  const std::int64_t bytes = c.bytes.value_or(static_cast<std::int64_t>(packed_bytes(c.packed)));
  Tensor bias = Tensor::allocate(DataType::kFloat, c.bias).value();
  for (float& x : bias.mutable_elements<float>()) x = 1;
  Tensor one = Tensor::allocate(DataType::kFloat, {}).value();
  one.mutable_elements<float>()[0] = 0.5F;
  std::vector<Param> params{integer("k", c.k),          integer("n", c.n),
                            integer("zeros", 0),        ints("kernel", c.kernel),
                            ints("strides", c.strides), ints("dilations", c.dilations),
                            ints("pads", c.pads)};
  if (c.group) params.push_back(integer("group", *c.group));
  if (c.limits) params.push_back(integer("limits", 1));
  const Operand y = maker.op(
      kind::kByteConv,
      {maker.input(counted_bytes(c.src)), maker.weight(counted_bytes({bytes})),
       maker.input(counted_bytes(c.zero)), maker.input(one), maker.weight(one), maker.weight(bias)},
      params);
  maker.program().values[y.index].type = c.result;
  maker.output(y);
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

/// Three channels, each of which a result sees: the matrix is the weights as they are.
ConvOfBytes depthwise() { return {.k = 9, .n = 3, .bytes = 27, .bias = {3}, .group = 3}; }

TEST(ExecByteConv, RefusesGroupsThatItHasNotGot) {
  const auto code_with = [](const auto& change) {
    ConvOfBytes c = depthwise();
    change(c);
    return code_of_conv(c);
  };
  EXPECT_EQ(code_with([](ConvOfBytes&) {}), ctxgen::test::kOk);
  for (const std::int64_t group : {-1, 0, 2, 4})
    EXPECT_EQ(code_with([&](ConvOfBytes& c) { c.group = group; }), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_with([](ConvOfBytes& c) { c.src[1] = 4; }), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_with([](ConvOfBytes& c) { c.bytes = 26; }), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_with([](ConvOfBytes& c) { c.kernel = {3, 4}; }), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_with([](ConvOfBytes& c) { c.limits = true; }), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_with([](ConvOfBytes& c) {
              c.kernel = {27, 19};
              c.k = 513;
              c.bytes = 3 * 513;
            }),
            ErrorCode::kInvalidGraph);
  Maker sums = byte_conv(depthwise());
  sums.program().ops[0].inputs.resize(3);
  sums.program().values[sums.program().outputs[0]].type = DataType::kInt32;
  EXPECT_EQ(code_of(compile_and_run_typed(sums)), ErrorCode::kUnsupported);
}

TEST(ExecByteConv, InGroupsGivesTheSameOnSeveralThreads) {
  for (const Dims& src : {Dims{1, 3, 8, 8}, Dims{2, 3, 400, 50}}) {
    ConvOfBytes c = depthwise();
    c.src = src;
    c.pads = {1, 1, 1, 1};
    expect_same_on_two_threads(byte_conv(c));
  }
}

TEST(ExecByteConv, InGroupsOfNoImagesIsEmpty) {
  ConvOfBytes none = depthwise();
  none.src[0] = 0;
  Maker maker = byte_conv(none);
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{0, 3, 6, 6}));
}

TEST(ExecByteConv, OfNoImagesIsEmpty) { expect_empty_result(byte_conv({.src = {0, 3, 8, 8}})); }

TEST(ExecByteConv, GivesTheSameOnSeveralThreads) {
  for (const Dims& src : {Dims{1, 3, 8, 8}, Dims{2, 3, 40, 50}})
    expect_same_on_two_threads(byte_conv({.src = src, .pads = {1, 1, 1, 1}}));
  // Windows that are read where they are, with and without padding, and few windows of many columns, which threads share.
  const ConvOfBytes wide{
      .src = {2, 4, 30, 57}, .k = 36, .n = 70, .packed = {.k = 36, .n = 70}, .bias = {70}};
  for (const IntList& pads : {IntList{0, 0, 0, 0}, IntList{1, 1, 1, 1}, IntList{2, 0, 0, 5}})
    for (const std::int64_t stride : {1, 2}) {
      ConvOfBytes c = wide;
      c.pads = pads;
      c.strides = {stride, stride};
      expect_same_on_two_threads(byte_conv(c));
    }
  expect_same_on_two_threads(byte_conv({.src = {1, 4, 9, 9},
                                        .k = 36,
                                        .n = 700,
                                        .pads = {1, 1, 1, 1},
                                        .packed = {.k = 36, .n = 700},
                                        .bias = {700}}));
}

}  // namespace
}  // namespace ctxgen::onednn::test
