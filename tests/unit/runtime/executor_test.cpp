#include "run/executor.h"

#include <cstring>

#include <gtest/gtest.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "model_bytes.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::kOk;
using test::ModelBytes;

/// relu(relu(... x ...)), `depth` times; x float[n].
std::shared_ptr<const Model> chain(int depth) {
  ModelBytes bytes;
  bytes.input("v0", {"n"}).output("v" + std::to_string(depth), {"n"});
  for (int i = 0; i < depth; ++i)
    bytes.add(
        ModelBytes::node("", "Relu", {"v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}));
  auto model = read_model(bytes.blob(), {});
  EXPECT_EQ(code_of(model), kOk);
  return std::make_shared<const Model>(std::move(*model));
}

std::unique_ptr<GraphExecutor> executor_of(const std::shared_ptr<const Model>& model) {
  auto executor = GraphExecutor::build(model, model->graph, {});
  EXPECT_EQ(code_of(executor), kOk);
  return std::move(*executor);
}

Binding input(const Model& model, std::int64_t size) {
  return {model.graph.inputs.front(), *Tensor::allocate(DataType::kFloat, Dims{size})};
}

TEST(GraphExecutor, IntermediateTensorsLiveUntilTheirLastUse) {
  const auto model = chain(20);
  const auto executor = executor_of(model);
  const auto state = executor->make_state(std::make_shared<TensorPool>());
  ASSERT_EQ(code_of(executor->run(*state, {{input(*model, 1000)}}, {})), kOk);
  // Two buffers take turns: one is read while the other is written.
  EXPECT_EQ(state->pool->allocations(), 2U);
}

TEST(GraphExecutor, ASecondRunOfEqualShapesTakesNoNewMemory) {
  const auto model = chain(5);
  const auto executor = executor_of(model);
  const auto state = executor->make_state(std::make_shared<TensorPool>());
  ASSERT_EQ(code_of(executor->run(*state, {{input(*model, 1000)}}, {})), kOk);
  const auto first = state->pool->allocations();
  for (int i = 0; i < 3; ++i)
    ASSERT_EQ(code_of(executor->run(*state, {{input(*model, 1000)}}, {})), kOk);
  EXPECT_EQ(state->pool->allocations(), first);
}

TEST(GraphExecutor, AStateHoldsNoTensorBetweenRuns) {
  const auto model = chain(3);
  const auto executor = executor_of(model);
  const auto state = executor->make_state(std::make_shared<TensorPool>());
  const auto holds_none = [&] {
    for (const RuntimeValue& value : state->values)
      if (value.defined()) return false;
    return true;
  };
  ASSERT_EQ(code_of(executor->run(*state, {{input(*model, 10)}}, {})), kOk);
  EXPECT_TRUE(holds_none());
  EXPECT_EQ(code_of(executor->run(*state, {}, RunControl{})), ErrorCode::kInvalidGraph)
      << "an input without a value";
  EXPECT_TRUE(holds_none());
}

TEST(GraphExecutor, ConstantNodesAreNoSteps) {
  ModelBytes bytes;
  bytes.input("x", {2}).output("y", {2});
  test::Proto node = ModelBytes::node("c", "Constant", {}, {"c"});
  test::Proto attribute;
  attribute.text(1, "value").message(5, ModelBytes::tensor("", {1, 2})).number(20, 4);
  node.message(5, attribute);
  bytes.add(node);
  bytes.add(ModelBytes::node("add", "Add", {"x", "c"}, {"y"}));
  auto read = read_model(bytes.blob(), {});
  ASSERT_EQ(code_of(read), kOk);
  const auto model = std::make_shared<const Model>(std::move(*read));
  const auto executor = executor_of(model);
  EXPECT_EQ(executor->step_count(), 1U);
  const auto state = executor->make_state(std::make_shared<TensorPool>());
  Binding binding = input(*model, 2);
  std::memset(binding.value.tensor().mutable_bytes().data(), 0, 8);
  const auto outputs = executor->run(*state, {{binding}}, {});
  ASSERT_EQ(code_of(outputs), kOk);
  EXPECT_EQ(outputs->front().tensor().elements<float>()[1], 2.0F);
}

}  // namespace
}  // namespace ctxgen
