// Memory that kernels take is the run's, so that the run can bound it.

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "build_node.h"
#include "kernel/forwarding_context.h"
#include "kernel/vector_context.h"

namespace ctxgen::cpu {
namespace {

/// Counts the tensors that a kernel makes beside its outputs.
class CountingContext final : public ForwardingContext {
 public:
  using ForwardingContext::ForwardingContext;
  [[nodiscard]] Result<Tensor> make_tensor(DataType type, const Dims& dims) override {
    ++made;
    return ForwardingContext::make_tensor(type, dims);
  }
  int made = 0;
};

int tensors_made(const Node& node, std::vector<std::optional<Tensor>> inputs) {
  const auto kernel = make_kernel(node).value();
  VectorContext outputs(node, std::move(inputs));
  CountingContext context(outputs);
  const auto status = kernel->run(context);
  EXPECT_TRUE(status) << status.error().message;
  return context.made;
}

Tensor of_type(DataType type, const Dims& dims) {
  Tensor tensor = Tensor::allocate(type, dims).value();
  std::ranges::fill(tensor.mutable_bytes(), std::byte{0});
  return tensor;
}

TEST(KernelMemory, KernelsInsideOfKernelsTakeItFromTheRun) {
  const Tensor half = of_type(DataType::kFloat16, {2, 2});
  // MatMul in it widens both, and its output.
  EXPECT_EQ(tensors_made(make_node("FusedMatMul", 1, 1, "com.microsoft"), {half, half}), 3);
  Node transposed = make_node("FusedMatMul", 1, 1, "com.microsoft");
  set_int(transposed, "transA", 1);
  EXPECT_EQ(tensors_made(transposed, {half, half}), 4);
  Node gemm = make_node("FusedGemm", 1, 1, "com.microsoft");
  set_string(gemm, "activation", "Relu");
  EXPECT_EQ(tensors_made(gemm, {half, half}), 3);
}

TEST(KernelMemory, CastsThroughAnotherTypeTakeItFromTheRun) {
  const auto made = [](DataType from, DataType to) {
    Node node = make_node("Cast", 23);
    set_int(node, "to", static_cast<std::int64_t>(to));
    return tensors_made(node, {of_type(from, {4})});
  };
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kFloat), 0);
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kFloat16), 1);
  EXPECT_EQ(made(DataType::kFloat16, DataType::kFloat8E5M2), 1);
  EXPECT_EQ(made(DataType::kFloat8E5M2, DataType::kInt4), 2);
  EXPECT_EQ(made(DataType::kFloat8E8M0, DataType::kFloat8E5M2), 1);
  EXPECT_EQ(made(DataType::kInt4, DataType::kInt4), 0);
}

Status run_within(const NodeBudget& budget, const Node& node, const std::vector<Tensor>& inputs) {
  const auto kernel = make_kernel(node).value();
  VectorContext context(node, {inputs.begin(), inputs.end()}, budget);
  return kernel->run(context);
}

void expect_limited(const Node& node, const std::vector<Tensor>& inputs) {
  const auto refused = run_within({.output_bytes = 200'000}, node, inputs);
  ASSERT_FALSE(refused) << node.op_type.view();
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit) << refused.error().message;
  const auto passed = run_within({.output_bytes = 4'000'000}, node, inputs);
  EXPECT_TRUE(passed) << passed.error().message;
}

TEST(KernelMemory, CopiesOfAttributesStringsCountBeforeTheyAreMade) {
  const std::string text(1000, 'x');
  Node constant = make_node("ConstantOfShape", 24);
  Attribute value;
  value.name = "value";
  value.kind = AttributeKind::kTensor;
  value.tensors.push_back(Tensor::of_strings({1}, {text}));
  constant.attributes.push_back(std::move(value));
  expect_limited(constant, {ints({1}, {1000})});

  Node encoder = make_node("LabelEncoder", 4, 1, "ai.onnx.ml");
  set_ints(encoder, "keys_int64s", {1});
  set_strings(encoder, "values_strings", {text});
  expect_limited(encoder, {ints({1000}, std::vector<std::int64_t>(1000, 1))});

  Node classifier = make_node("LinearClassifier", 1, 2, "ai.onnx.ml");
  set_strings(classifier, "classlabels_strings", {"a", text});
  set_floats(classifier, "coefficients", {1, 2});
  set_floats(classifier, "intercepts", {0, 0});
  expect_limited(classifier, {floats({1000, 1}, std::vector<float>(1000, 1))});
}

TEST(KernelMemory, WhatAKernelComputesInIsBounded) {
  const auto expect_bounded = [](const Node& node, const std::vector<Tensor>& inputs) {
    const auto refused = run_within({.scratch_bytes = 10'000}, node, inputs);
    ASSERT_FALSE(refused) << node.op_type.view();
    EXPECT_EQ(refused.error().code, ErrorCode::kResourceLimit);
    EXPECT_TRUE(run_within({.scratch_bytes = 1'000'000}, node, inputs)) << node.op_type.view();
  };
  const Tensor half = of_type(DataType::kFloat16, {100, 100});
  expect_bounded(make_node("FusedMatMul", 1, 1, "com.microsoft"), {half, half});
  if (!Scratch::keeps()) GTEST_SKIP() << "vectors: every block is the system's";
  expect_bounded(make_node("NonZero", 13), {floats({10'000}, std::vector<float>(10'000, 1))});
}

TEST(KernelMemory, PartsOfStringsCountBeforeTheyAreMade) {
  const Tensor texts = Tensor::of_strings({1}, {std::string(1'000'000, 'x')});
  expect_limited(make_node("StringSplit", 20, 2), {texts});
  expect_limited(make_node("StringNormalizer", 10), {texts});
}

}  // namespace
}  // namespace ctxgen::cpu
