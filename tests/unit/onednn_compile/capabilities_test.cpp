#include <algorithm>
#include <format>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctxgen/onednn/provider.h"
#include "ctxgen/partition/partitioner.h"

#include "test_graph.h"

namespace ctxgen::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The reason why the last node is refused, or "" if it is claimed.
std::string reason(const TestGraph& graph) {
  const auto capabilities = onednn::make_provider()->capabilities(graph.view());
  EXPECT_TRUE(capabilities.has_value());
  for (const Rejection& rejection : capabilities->rejections) {
    if (rejection.node == graph.last_node()) return rejection.reason;
  }
  return "";
}

TEST(DnnlCapabilities, EveryNodeIsClaimedOrHasAReason) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8});
  const std::string shape = g.add_typed("Shape", {x}, x);
  const std::string y = g.add("Relu", {x});
  g.output(y);
  g.output(shape);
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  ASSERT_TRUE(capabilities.has_value());
  ASSERT_EQ(capabilities->claims.size(), 1U);
  EXPECT_THAT(capabilities->claims[0].nodes, ElementsAre(NodeId{1}));
  EXPECT_FALSE(capabilities->claims[0].glue);
  ASSERT_EQ(capabilities->rejections.size(), 1U);
  EXPECT_EQ(capabilities->rejections[0].reason, "operator has no oneDNN lowering");
}

TEST(DnnlCapabilities, TakenNodesAreNotClaimed) {
  TestGraph g(17);
  g.output(g.add("Relu", {g.input("x", {4})}));
  GraphView view = g.view();
  view.take(NodeId{0});
  const auto capabilities = onednn::make_provider()->capabilities(view);
  EXPECT_TRUE(capabilities->claims.empty());
  EXPECT_EQ(capabilities->rejections[0].reason, "taken by another provider");
}

TEST(DnnlCapabilities, OtherTypesAreRefusedByName) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 3});
  g.model.graph.value(g.id(x)).type.element = DataType::kInt64;
  g.add_typed("Relu", {x}, x);
  EXPECT_EQ(reason(g), "element type int64");
}

TEST(DnnlCapabilities, GatherFromAConstantTakesRowsOfFloats) {
  TestGraph g(17);
  Tensor zeros = *Tensor::allocate(DataType::kInt64, {2, 3});
  std::ranges::fill(zeros.mutable_bytes(), std::byte{0});
  const std::string ids = g.tensor_input("i", zeros);
  g.add("Gather", {g.constant({4, 5}), ids}, {attr("axis", -2)});
  EXPECT_EQ(reason(g), "");
  g.add("Gather", {g.constant({4, 5}), ids}, {attr("axis", 1)});
  EXPECT_EQ(reason(g), "axis is 1, expected 0 where data is constant");
  g.add("Gather", {g.ints({4, 5}), ids});
  EXPECT_EQ(reason(g), "element type int64");
}

TEST(DnnlCapabilities, BoolIsMovedAndSelectsOnly) {
  TestGraph g(17);
  const std::string c = g.tensor_input("c", g.random_of(DataType::kBool, {2, 3, 4}));
  const std::string x = g.input("x", {2, 3, 4}),
                    ids = g.tensor_input("i", g.random_of(DataType::kInt32, {4}));
  g.add_typed("Where", {c, x, x}, x);
  EXPECT_EQ(reason(g), "");
  g.add_typed("Where", {x, x, x}, x);
  EXPECT_EQ(reason(g), "element type float32");
  g.add_typed("Where", {c, ids, ids}, ids);
  EXPECT_EQ(reason(g), "element type int32");
  g.add_typed("Where", {c, c, c}, c);
  EXPECT_EQ(reason(g), "element type bool");
  g.add_typed("MaxPool", {c}, c);
  EXPECT_EQ(reason(g), "element type bool");
  g.add_typed("Relu", {c}, c);
  EXPECT_EQ(reason(g), "element type bool");
}

TEST(DnnlCapabilities, CeluOfOtherSlopesIsRefused) {
  for (const float alpha : {-1.0F, 0.0F, 1e-39F}) {
    TestGraph g(17);
    const std::string x = g.input("x", {4});
    g.add_typed("Celu", {x}, x);
    g.model.graph.node(g.last_node()).attributes = {attr("alpha", alpha)};
    EXPECT_THAT(reason(g), HasSubstr("alpha is"));
  }
}

TEST(DnnlCapabilities, NodesWithoutOperandsAreRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {4});
  g.add_typed("Relu", {x}, x);
  g.model.graph.node(g.last_node()).inputs = {ValueId{}};
  EXPECT_EQ(reason(g), "input 0 is absent");
  g.add_typed("Relu", {x}, x);
  g.model.graph.node(g.last_node()).outputs.clear();
  EXPECT_EQ(reason(g), "first output is absent");
}

TEST(DnnlCapabilities, WholeWindowAverageBelowOpset19IsRefused) {
  for (const std::int64_t opset : {11, 19}) {
    TestGraph g(opset);
    g.output(g.add("AveragePool", {g.input("x", {1, 3, 8, 8})},
                   {attr("kernel_shape", std::vector<std::int64_t>{3, 3}),
                    attr("strides", std::vector<std::int64_t>{2, 2}), attr("ceil_mode", 1),
                    attr("count_include_pad", 1)}));
    EXPECT_EQ(reason(g), opset == 11 ? "ceil_mode with count_include_pad below opset 19" : "");
  }
}

TEST(DnnlCapabilities, DimsThatNoTensorHasAreRefused) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  TestGraph g(13);
  const std::string x = g.input("x", {1, 2, 4});
  g.add("Split", {x}, {attr("axis", 1)}, 2);
  g.add("AveragePool", {x},
        {attr("kernel_shape", std::vector<std::int64_t>{2}),
         attr("pads", std::vector<std::int64_t>{1, 1})});
  (*g.model.graph.value(g.id("x")).type.shape)[1] = Dim::fixed(kMost);
  const auto capabilities = onednn::make_provider()->capabilities(g.view());
  ASSERT_TRUE(capabilities.has_value());
  ASSERT_EQ(capabilities->rejections.size(), 2U);
  for (const Rejection& rejection : capabilities->rejections)
    EXPECT_EQ(rejection.reason, std::format("\"x\" has a dimension of {}", kMost));
}

TEST(DnnlCapabilities, OutputSizesThatNoTensorHasAreRefused) {
  for (const std::int64_t size :
       {std::numeric_limits<std::int64_t>::min(), std::int64_t{1} << 60}) {
    TestGraph g(13);
    const std::string x = g.input("x", {1, 1, 4});
    g.add_typed("ConvTranspose", {x, g.constant({1, 1, 3})}, x);
    g.model.graph.node(g.last_node()).attributes = {attr("output_shape", std::vector{size})};
    EXPECT_EQ(reason(g), std::format("output size {}", size));
  }
}

TEST(DnnlCapabilities, UnknownRankIsRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 3});
  g.model.graph.value(g.id(x)).type.shape.reset();
  g.add_typed("Relu", {x}, x);
  EXPECT_EQ(reason(g), "rank of \"x\" is unknown");
}

TEST(DnnlCapabilities, EmptyAndScalarTensorsAreRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 0});
  g.add_typed("Relu", {x}, x);
  EXPECT_THAT(reason(g), HasSubstr("dimension of 0"));
  const std::string s = g.input("s", {});
  g.add_typed("Relu", {s}, s);
  EXPECT_EQ(reason(g), "\"s\" is a scalar");
}

TEST(DnnlCapabilities, ReshapeNeedsAConstantShape) {
  TestGraph g(17);
  const std::string x = g.input("x", {2, 3}), shape = g.input("shape", {2});
  g.model.graph.value(g.id(shape)).type.element = DataType::kInt64;
  g.add_typed("Reshape", {x, shape}, x);
  EXPECT_EQ(reason(g), "shape input is not constant");
}

TEST(DnnlCapabilities, ConvNeedsWeightsOfKnownDimsThatFit) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8});
  const std::string w = g.input("w", {4, 4, 3, 3});
  g.add("Conv", {x, w});
  EXPECT_EQ(reason(g), "");
  (*g.model.graph.value(g.id(w)).type.shape)[0] = Dim{};
  EXPECT_EQ(reason(g), "weight input is not constant, and its dims are not known");
  const std::string integers = g.input("i", {4, 4, 3, 3});
  g.model.graph.value(g.id(integers)).type.element = DataType::kInt32;
  g.add_typed("Conv", {x, integers}, x);
  EXPECT_EQ(reason(g), "element type int32");
  g.add_typed("Conv", {x, g.constant({4, 4, 3, 3}), g.input("b", {5})}, x);
  EXPECT_EQ(reason(g), "bias has dims [5], expected [4]");
  const std::string five = g.constant({4, 5, 3, 3});
  g.add_typed("Conv", {x, five}, x);
  EXPECT_EQ(reason(g), "input has 4 channels, weights take 5 in 1 groups");
}

TEST(DnnlCapabilities, WindowListsOfTheWrongLengthAreRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8}), w = g.constant({4, 4, 3, 3});
  g.add_typed("Conv", {x, w}, x);
  auto& attributes = g.model.graph.node(g.last_node()).attributes;
  attributes = {attr("pads", std::vector<std::int64_t>{1, 1, 1})};
  EXPECT_EQ(reason(g), "pads has 3 values, expected 4");
  attributes = {attr("pads", std::vector<std::int64_t>{1, 1, 1, -1})};
  EXPECT_THAT(reason(g), HasSubstr("pads holds -1"));
  attributes = {attr("strides", std::vector<std::int64_t>{0, 1})};
  EXPECT_THAT(reason(g), HasSubstr("strides holds 0"));
  attributes = {attr("group", 0)};
  EXPECT_THAT(reason(g), HasSubstr("group 0"));
  attributes = {attr("kernel_shape", std::vector<std::int64_t>{5, 5})};
  EXPECT_THAT(reason(g), HasSubstr("kernel_shape"));
  attributes = {attr("auto_pad", std::string("SOMETIMES"))};
  EXPECT_THAT(reason(g), HasSubstr("SOMETIMES"));
  attributes = {attr("padding", 1)};
  EXPECT_EQ(reason(g), "attribute \"padding\" is not known");
}

TEST(DnnlCapabilities, WantedSecondOutputsAreRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8});
  g.add("MaxPool", {x}, {attr("kernel_shape", std::vector<std::int64_t>{2, 2})}, 2);
  EXPECT_EQ(reason(g), "") << "nobody reads the indices";
  g.model.graph.value(g.model.graph.node(g.last_node()).outputs[1]).is_output = true;
  EXPECT_THAT(reason(g), HasSubstr("optional output 1"));
}

TEST(DnnlCapabilities, TrainingFormsAreRefused) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8});
  const std::vector<std::string> inputs = {x, g.constant({4}), g.constant({4}), g.constant({4}),
                                           g.constant({4}, 0.5F, 1.0F)};
  g.add("BatchNormalization", inputs);
  EXPECT_EQ(reason(g), "");
  g.model.graph.node(g.last_node()).attributes = {attr("training_mode", 1)};
  EXPECT_EQ(reason(g), "training mode");
}

TEST(DnnlCapabilities, ConstantsAreLeftToFolding) {
  TestGraph g(17);
  g.add("Relu", {g.constant({4})});
  EXPECT_EQ(reason(g), "all inputs are constant");
  auto& value = g.model.graph.value(g.model.graph.node(g.last_node()).outputs[0]);
  value.folded = g.value(value.name);
  EXPECT_EQ(reason(g), "its result is a constant");
}

TEST(DnnlCapabilities, AnOverridableInitializerIsNoConstant) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8}), w = g.constant({4, 4, 3, 3});
  g.add("ConvTranspose", {x, w});
  EXPECT_EQ(reason(g), "");
  g.model.graph.value(g.id(w)).is_overridable = true;
  EXPECT_EQ(reason(g), "weight input is not constant");
}

TEST(DnnlCapabilities, RecurrentLayersOfOtherFormsAreRefused) {
  TestGraph g(14);
  const std::string x = g.input("x", {2, 1, 3});
  const std::vector<std::string> inputs{x, g.constant({1, 16, 3}), g.constant({1, 16, 4})};
  g.add("LSTM", inputs, {attr("hidden_size", 4)}, 1);
  EXPECT_EQ(reason(g), "");
  auto& node = g.model.graph.node(g.last_node());
  node.attributes = {attr("hidden_size", 4), attr("clip", 1.0F)};
  EXPECT_THAT(reason(g), HasSubstr("clip"));
  node.attributes = {attr("hidden_size", 4), attr("input_forget", 1)};
  EXPECT_EQ(reason(g), "input_forget");
  node.attributes = {attr("hidden_size", 4), attr("direction", std::string("sideways"))};
  EXPECT_THAT(reason(g), HasSubstr("sideways"));
  node.attributes = {attr("hidden_size", 5)};
  EXPECT_THAT(reason(g), HasSubstr("weights are"));
  node.attributes = {attr("hidden_size", 4)};
  node.inputs.resize(8);
  node.inputs[7] = g.id(g.constant({1, 12}));
  EXPECT_EQ(reason(g), "peepholes");
  node.inputs.resize(5);
  node.inputs[4] = g.id(g.ints({1}));
  EXPECT_THAT(reason(g), HasSubstr("sequence_lens"));
}

TEST(DnnlCapabilities, ResizesOfOtherFormsAreRefused) {
  TestGraph g(13);
  const std::string x = g.input("x", {1, 4, 8, 8});
  g.add("Resize", {x, "", g.constant({4}, {1, 1, 2, 2})});
  EXPECT_EQ(reason(g), "");
  auto& node = g.model.graph.node(g.last_node());
  node.attributes = {attr("mode", std::string("cubic"))};
  EXPECT_THAT(reason(g), HasSubstr("cubic"));
  node.attributes = {attr("coordinate_transformation_mode", std::string("tf_crop_and_resize"))};
  EXPECT_THAT(reason(g), HasSubstr("tf_crop_and_resize"));
  node.attributes = {attr("mode", std::string("linear"))};
  node.inputs[2] = g.id(g.constant({4}, {1, 2, 2, 2}));
  EXPECT_THAT(reason(g), HasSubstr("batch or channels"));
}

TEST(DnnlCapabilities, FlattenedSoftmaxOverSeveralUnknownDimsIsRefused) {
  TestGraph g(11);
  const std::string x = g.input("x", {2, 3, 4});
  const std::string y = g.add("Softmax", {x}, {attr("axis", 1)});
  g.set_dims(x, {"", "a", "b"});
  g.set_dims(y, {"", "a", "b"});
  EXPECT_EQ(reason(g), "flattens several dims of unknown size");
}

// conv -> relu -> shape arithmetic -> flatten -> gemm: which node went where, in order, and why not.
TEST(DnnlCapabilities, AssignmentOfASmallNetwork) {
  TestGraph g(17);
  const std::string x = g.input("x", {1, 4, 8, 8});
  const std::string conv = g.add("Conv", {x, g.constant({4, 4, 3, 3})});
  const std::string relu = g.add("Relu", {conv});
  const std::string odd = g.add_typed("Tan", {relu}, relu);
  const std::string sum = g.add_typed("Add", {odd, relu}, relu);
  g.output(sum);
  const std::string flat = g.add("Flatten", {relu});
  g.output(g.add("Gemm", {flat, g.constant({144, 10})}));
  const auto provider = onednn::make_provider();
  const Provider* list[] = {provider.get()};
  const auto assignment = partition_graph(g.model, g.model.graph, list);
  ASSERT_TRUE(assignment.has_value()) << assignment.error().message;
  const auto& partitions = assignment->partitions[0];
  ASSERT_EQ(partitions.size(), 2U);
  EXPECT_THAT(partitions[0].nodes, ElementsAre(NodeId{0}, NodeId{1}, NodeId{4}, NodeId{5}));
  EXPECT_THAT(partitions[1].nodes, ElementsAre(NodeId{3}));
  EXPECT_THAT(assignment->nodes[2].reasons, ElementsAre("dnnl: operator has no oneDNN lowering"));
  EXPECT_EQ(assignment->nodes[2].provider, -1);
}

}  // namespace
}  // namespace ctxgen::testing
