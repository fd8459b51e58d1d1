#include "ctxgen/graph/graph.h"

#include <gmock/gmock.h>

namespace ctxgen {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Node make_node(std::string op, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  Node node;
  node.op_type = std::move(op);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return node;
}

TEST(Graph, FindsValuesByName) {
  Graph graph;
  const ValueId a = graph.find_or_add("a"), b = graph.find_or_add("b");
  EXPECT_NE(a, b);
  EXPECT_EQ(graph.find_or_add("a"), a);
  EXPECT_EQ(graph.find("b"), b);
  EXPECT_EQ(graph.value(b).name, "b");
  EXPECT_FALSE(graph.find("c").valid());
  EXPECT_EQ(graph.value_count(), 2u);
}

TEST(Graph, LinksProducersAndConsumers) {
  Graph graph;
  const ValueId a = graph.find_or_add("a"), b = graph.find_or_add("b"), c = graph.find_or_add("c");
  const NodeId twice = graph.add_node(make_node("Add", {a, a}, {b}));
  Node holder = make_node("If", {ValueId{}, b}, {c, ValueId{}});
  holder.captures = {a, b};
  const NodeId second = graph.add_node(std::move(holder));

  EXPECT_FALSE(graph.value(a).producer.valid());
  EXPECT_EQ(graph.value(b).producer, twice);
  EXPECT_EQ(graph.value(c).producer, second);
  EXPECT_THAT(graph.value(a).consumers, ElementsAre(twice, second)) << "once per node";
  EXPECT_THAT(graph.value(b).consumers, ElementsAre(second));
}

TEST(Graph, RelinkFollowsNodesChangedInPlace) {
  Graph graph;
  const ValueId a = graph.find_or_add("a"), b = graph.find_or_add("b"), c = graph.find_or_add("c");
  const NodeId first = graph.add_node(make_node("Relu", {a}, {b}));
  graph.node(first).inputs = {c};
  graph.relink();
  EXPECT_THAT(graph.value(a).consumers, IsEmpty());
  EXPECT_THAT(graph.value(c).consumers, ElementsAre(first));
}

TEST(Graph, SetNodesReplacesAllAndKeepsValues) {
  Graph graph;
  const ValueId a = graph.find_or_add("a"), b = graph.find_or_add("b"), c = graph.find_or_add("c");
  graph.add_node(make_node("Relu", {a}, {b}));
  graph.add_node(make_node("Neg", {b}, {c}));
  graph.set_nodes({make_node("Exp", {a}, {c})});
  EXPECT_EQ(graph.node_count(), 1u);
  EXPECT_FALSE(graph.value(b).producer.valid());
  EXPECT_EQ(graph.value(c).producer, NodeId{0});
  EXPECT_THAT(graph.value(a).consumers, ElementsAre(NodeId{0}));
  EXPECT_EQ(graph.node(NodeId{0}).first_output_name, "c");
}

TEST(Node, DescribesItselfByNameOrFirstOutput) {
  Graph graph;
  Node node = make_node("Conv", {}, {ValueId{}, graph.find_or_add("y")});
  const NodeId id = graph.add_node(std::move(node));
  EXPECT_EQ(graph.node(id).describe(), "node of \"y\" (Conv)");
  graph.node(id).name = "conv_12";
  EXPECT_EQ(graph.node(id).describe(), "node \"conv_12\" (Conv)");
}

TEST(Node, ReadsAttributesOfTheRightKindOnly) {
  Node node;
  const auto add = [&node](std::string name, AttributeKind kind) -> Attribute& {
    Attribute& attribute = node.attributes.emplace_back();
    attribute.name = std::move(name);
    attribute.kind = kind;
    return attribute;
  };
  add("axis", AttributeKind::kInt).i = -1;
  add("alpha", AttributeKind::kFloat).f = 0.5f;
  add("mode", AttributeKind::kString).s = "linear";
  add("pads", AttributeKind::kInts).ints = {1, 2};
  EXPECT_EQ(node.int_or("axis", 7), -1);
  EXPECT_EQ(node.int_or("alpha", 7), 7) << "a float";
  EXPECT_EQ(node.float_or("alpha", 1), 0.5f);
  EXPECT_EQ(node.float_or("beta", 1), 1);
  EXPECT_EQ(node.string_or("mode", "nearest"), "linear");
  ASSERT_TRUE(node.ints("pads"));
  EXPECT_THAT(*node.ints("pads"), ElementsAre(1, 2));
  EXPECT_FALSE(node.ints("axis"));
  EXPECT_EQ(node.attribute("none"), nullptr);
  EXPECT_FALSE(node.input(0).valid());
}

TEST(Value, ConstantIsWhatNobodyCanOverride) {
  const Tensor one = *Tensor::allocate(DataType::kFloat, {1});
  const Tensor two = *Tensor::allocate(DataType::kFloat, {2});
  Value value;
  EXPECT_EQ(value.constant(), nullptr);
  value.initializer = one;
  ASSERT_NE(value.constant(), nullptr);
  value.is_overridable = true;
  EXPECT_EQ(value.constant(), nullptr);
  value.folded = two;
  ASSERT_NE(value.constant(), nullptr);
  EXPECT_EQ(value.constant()->dims(), Dims{2});
}

TEST(ValueType, FixedDimsAndText) {
  Model model;
  ValueType type{.kind = ValueType::Kind::kTensor, .element = DataType::kFloat, .shape = {}};
  EXPECT_FALSE(type.fixed_dims());
  type.shape = {{Dim::fixed(2), Dim::fixed(0)}};
  EXPECT_EQ(type.fixed_dims(), (Dims{2, 0}));
  type.shape = {{Dim::symbol(model.symbol("batch")), Dim::fixed(3), Dim()}};
  EXPECT_FALSE(type.fixed_dims());
  EXPECT_EQ(to_string(type, model), "float32[batch, 3, ?]");
  EXPECT_EQ(model.symbol("batch"), model.symbol("batch"));
  EXPECT_NE(model.symbol("batch"), model.symbol("time"));
  EXPECT_EQ(model.symbol_count(), 2u);
}

TEST(Model, KnowsOpsets) {
  Model model;
  model.opset_imports = {{"", 18}, {"com.microsoft", 1}};
  EXPECT_EQ(model.opset(""), 18);
  EXPECT_EQ(model.opset("com.microsoft"), 1);
  EXPECT_FALSE(model.opset("ai.onnx.ml"));
}

}  // namespace
}  // namespace ctxgen
