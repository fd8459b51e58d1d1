#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/op_kinds.h"

#include "code_of.h"
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
  EXPECT_EQ(code_of_conv({}), ctxgen::test::kOk);
  EXPECT_EQ(code_of_conv({.strides = {2, 2}, .pads = {1, 1, 1, 1}}), ctxgen::test::kOk);
  for (const std::int64_t k : {-1, 0, 26, 28, 1 << 30})
    EXPECT_EQ(code_of_conv({.k = k}), ErrorCode::kInvalidGraph) << k;
  for (const std::int64_t n : {-1, 0, 33, 1 << 30})
    EXPECT_EQ(code_of_conv({.n = n}), ErrorCode::kInvalidGraph) << n;
  for (const IntList& kernel : {IntList{}, IntList{3}, IntList{3, 3, 3}, IntList{9, 1},
                                IntList{0, 3}, IntList{-3, -3}, IntList{1 << 30, 3}})
    EXPECT_EQ(code_of_conv({.kernel = kernel}), ErrorCode::kInvalidGraph) << kernel.size();
  for (const IntList& strides : {IntList{0, 1}, IntList{1}, IntList{-1, 1}})
    EXPECT_EQ(code_of_conv({.strides = strides}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.dilations = {9, 9}}), ErrorCode::kInvalidGraph);
  for (const Dims& src : {Dims{1, 27}, Dims{27}})
    EXPECT_EQ(code_of_conv({.src = src}), ErrorCode::kUnsupported) << src.size();
  for (const Dims& src : {Dims{1, 4, 8, 8}, Dims{1, 3, 64}, Dims{1, 3, 2, 8}, Dims{1, 3, 4, 4, 4}})
    EXPECT_EQ(code_of_conv({.src = src}), ErrorCode::kInvalidGraph) << src.size();
  EXPECT_EQ(code_of_conv({.bytes = 64}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.bias = {6}}), ErrorCode::kInvalidGraph);
  EXPECT_EQ(code_of_conv({.zero = {2}}), ErrorCode::kInvalidGraph);
}

TEST(ExecByteConv, OfNoImagesIsEmpty) {
  Maker maker = byte_conv({.src = {0, 3, 8, 8}});
  const auto results = compile_and_run_typed(maker);
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->front().dims(), (Dims{0, 5, 6, 6}));
}

TEST(ExecByteConv, GivesTheSameOnSeveralThreads) {
  for (const Dims& src : {Dims{1, 3, 8, 8}, Dims{2, 3, 40, 50}}) {
    Maker maker = byte_conv({.src = src, .pads = {1, 1, 1, 1}});
    const Outputs one = compile_and_run(maker).value();
    const Packed packed = pack(maker, {maker.input_dims()}).value();
    const auto executable =
        loader().load(packed.shared(), packed.blobs(), LoadOptions{2}, nullptr).value();
    EXPECT_EQ(run(*executable, maker.inputs()).value(), one);
  }
}

}  // namespace
}  // namespace ctxgen::onednn::test
