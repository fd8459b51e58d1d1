#include <algorithm>

#include <gmock/gmock.h>

#include "ctxgen/onnx_lite/read_model.h"
#include "ctxgen/onnx_lite/write_model.h"

#include "code_of.h"
#include "proto_builder.h"

// Models whose nodes are not in topological order.

namespace ctxgen {
namespace {

using test::code_of;
using test::GraphParts;
using test::node;
using test::opset;
using test::Proto;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<Model> read(const Proto& proto) { return read_model(proto.blob(), {}); }

GraphParts parts_of(std::vector<Proto> nodes) {
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.nodes = std::move(nodes);
  return parts;
}

Proto model_of(std::vector<Proto> nodes, const std::vector<Proto>& functions = {}) {
  Proto model = test::model(graph(parts_of(std::move(nodes))), {opset("", 18), opset("local", 1)});
  for (const Proto& each : functions) model.message(25, each);
  return model;
}

std::vector<std::string> ops(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& each : graph.nodes()) out.push_back(each.op_type.str());
  return out;
}

Proto body(std::vector<Proto> nodes, std::string_view output) {
  GraphParts parts;
  parts.nodes = std::move(nodes);
  parts.outputs = {test::value_info(output, 1, {"?"})};
  return graph(parts, "body");
}

Proto if_node(const Proto& then_branch, std::string_view output = "y") {
  return node("If", {"flag"}, {output},
              {test::attr_graph("then_branch", then_branch),
               test::attr_graph("else_branch", body({}, "x"))});
}

const Graph& then_branch_of(const Model& model) {
  const auto found = std::ranges::find(model.graph.nodes(), std::string_view("If"),
                                       [](const Node& node) { return node.op_type.view(); });
  return *found->attribute("then_branch")->graphs.at(0);
}

std::string write(const Model& model) {
  std::string out;
  const Status status = write_model(model, identity_rewrite(model), [&out](auto part) -> Status {
    out += as_text(part);
    return {};
  });
  EXPECT_EQ(code_of(status), test::kOk);
  return out;
}

TEST(NodeOrder, ANodeThatComesTooLateMovesBeforeItsFirstReader) {
  const Proto cast = node("Cast", {"x"}, {"c"}, {test::attr_int("to", 10)}, "", "late cast");
  const auto model =
      read(model_of({node("Neg", {"x"}, {"a"}), node("Abs", {"c"}, {"b"}),
                     node("Exp", {"x"}, {"d"}), node("Sum", {"a", "b", "d"}, {"y"}), cast}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Neg", "Cast", "Abs", "Exp", "Sum"));
  EXPECT_EQ(as_text(model->bytes(model->graph.node(NodeId{1}).source)), cast.str())
      << "its bytes stay";
}

TEST(NodeOrder, WhatIsSortedStays) {
  const auto model = read(
      model_of({node("Neg", {"x"}, {"a"}), node("Exp", {"x"}, {"dead"}), node("Abs", {"a"}, {"b"}),
                node("Sin", {"x"}, {"d"}), node("Sum", {"d", "b"}, {"y"})}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Neg", "Exp", "Abs", "Sin", "Sum"));
  EXPECT_TRUE(model->sorted_nodes.empty());
}

TEST(NodeOrder, LateNodesKeepTheirOrderAmongEachOther) {
  const auto model = read(model_of({node("Sum", {"c", "b", "a"}, {"y"}), node("Abs", {"x"}, {"a"}),
                                    node("Exp", {"x"}, {"b"}), node("Sin", {"x"}, {"c"})}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Abs", "Exp", "Sin", "Sum"));
}

TEST(NodeOrder, LongChainsInReverse) {
  std::vector<Proto> nodes;
  constexpr int kCount = 100'000;
  for (int i = kCount; i-- > 0;) {
    const std::string from = i == 0 ? "x" : std::format("v{}", i - 1);
    const std::string to = i == kCount - 1 ? "y" : std::format("v{}", i);
    nodes.push_back(Proto().text(1, from).text(2, to).text(4, "Relu"));
  }
  const auto model = read(model_of(std::move(nodes)));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_EQ(model->graph.value(model->graph.find("y")).producer, NodeId{kCount - 1});
}

TEST(NodeOrder, BodiesAreSorted) {
  const auto model =
      read(model_of({if_node(body({node("Abs", {"t"}, {"u"}), node("Neg", {"x"}, {"t"})}, "u"))}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(then_branch_of(*model)), ElementsAre("Neg", "Abs"));
}

TEST(NodeOrder, WhatABodyReadsIsReadByItsNode) {
  const Proto inner = body({if_node(body({}, "late"), "u")}, "u");
  const auto model = read(model_of({if_node(inner), node("Neg", {"x"}, {"late"})}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Neg", "If"));
}

TEST(NodeOrder, ABodysOwnValueGoesBeforeItsOuterNamesake) {
  // "n" in the body is its own, though the one around it is known when its first node is read.
  const auto model =
      read(model_of({node("Neg", {"x"}, {"n"}),
                     if_node(body({node("Abs", {"n"}, {"t"}), node("Exp", {"x"}, {"n"})}, "t"))}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(then_branch_of(*model)), ElementsAre("Exp", "Abs"));
  EXPECT_FALSE(then_branch_of(*model).value(then_branch_of(*model).find("n")).is_outer);
}

TEST(NodeOrder, FunctionsAreSorted) {
  const Proto twice = test::function("Twice", {"a"}, {"b"}, {},
                                     {node("Abs", {"t"}, {"b"}), node("Neg", {"a"}, {"t"})});
  const auto model = read(
      model_of({node("Relu", {"z"}, {"y"}), node("Twice", {"x"}, {"z"}, {}, "local")}, {twice}));
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(ops(model->graph), ElementsAre("Neg", "Abs", "Relu"));
  EXPECT_THAT(ops(*model->functions.at(0).body), ElementsAre("Neg", "Abs"));
}

TEST(NodeOrder, OutputsAreWrittenSorted) {
  const Proto abs = node("Abs", {"t"}, {"u"}), neg = node("Neg", {"x"}, {"t"});
  const Proto f_abs = node("Abs", {"t"}, {"b"}), f_neg = node("Neg", {"a"}, {"t"});
  const Proto twice = test::function("Twice", {"a"}, {"b"}, {}, {f_abs, f_neg});
  const Proto proto = model_of(
      {node("Twice", {"z"}, {"y"}, {}, "local"), if_node(body({abs, neg}, "u"), "z")}, {twice});
  const Model model = read(proto).value();
  EXPECT_EQ(model.sorted_nodes.size(), 2u) << "the body and the function";
  const std::string text = write(model);
  EXPECT_EQ(text.size(), proto.str().size());
  for (const Proto& each : {abs, neg, f_abs, f_neg})
    EXPECT_THAT(text, HasSubstr(each.str())) << "the bytes of nodes stay";
  const auto bytes = std::as_bytes(std::span(text));
  const Model again = read_model(Blob::own({bytes.begin(), bytes.end()}), {}).value();
  EXPECT_TRUE(again.sorted_nodes.empty()) << "nothing is left to sort";
  EXPECT_THAT(ops(again.graph), ElementsAre("If", "Neg", "Abs"));
  EXPECT_EQ(write(again), text) << "a fixed point";
}

TEST(NodeOrder, CyclesAreRefusedByTheirNodes) {
  const auto cycle = read(model_of(
      {node("Neg", {"x"}, {"n"}, {}, "", "free"), node("Abs", {"b"}, {"a"}, {}, "", "one"),
       node("Add", {"a", "n"}, {"b"}, {}, "", "two"), node("Relu", {"b"}, {"y"}, {}, "", "end")}));
  ASSERT_EQ(code_of(cycle), ErrorCode::kInvalidGraph);
  EXPECT_THAT(cycle.error().message, AllOf(HasSubstr("\"one\""), HasSubstr("\"two\""),
                                           Not(HasSubstr("\"free\"")), Not(HasSubstr("\"end\""))));
  const auto self = read(model_of({node("Relu", {"y"}, {"y"}, {}, "", "self")}));
  ASSERT_EQ(code_of(self), ErrorCode::kInvalidGraph);
  EXPECT_THAT(self.error().message, HasSubstr("\"self\""));
  const auto through_body = read(model_of({if_node(body({node("Neg", {"back"}, {"t"})}, "t")),
                                           node("Abs", {"y"}, {"back"}, {}, "", "closes")}));
  ASSERT_EQ(code_of(through_body), ErrorCode::kInvalidGraph);
  EXPECT_THAT(through_body.error().message, HasSubstr("\"closes\""));
  const Proto bad = test::function("Bad", {"a"}, {"b"}, {},
                                   {node("Abs", {"t"}, {"b"}), node("Add", {"a", "b"}, {"t"})});
  EXPECT_EQ(code_of(read(model_of({node("Bad", {"x"}, {"y"}, {}, "local")}, {bad}))),
            ErrorCode::kInvalidGraph);
}

TEST(NodeOrder, AMissingSourceIsNamedInAnyOrder) {
  const auto model = read(model_of(
      {node("Relu", {"a"}, {"y"}), node("Add", {"x", "nowhere"}, {"a"}, {}, "", "reader")}));
  ASSERT_EQ(code_of(model), ErrorCode::kInvalidGraph);
  EXPECT_THAT(model.error().message, AllOf(HasSubstr("\"reader\""), HasSubstr("\"nowhere\"")));
}

TEST(NodeOrder, LimitsHoldWhileSorting) {
  const Proto proto =
      model_of({node("Relu", {"a"}, {"y"}), node("Abs", {"b"}, {"a"}), node("Neg", {"x"}, {"b"})});
  ReadModelOptions options;
  EXPECT_EQ(code_of(read_model(proto.blob(), options)), test::kOk);
  options.limits.nodes = 2;
  EXPECT_EQ(code_of(read_model(proto.blob(), options)), ErrorCode::kResourceLimit);
  Proto deep = body({}, "x");
  for (int i = 0; i < 40; ++i) deep = body({if_node(deep, "v")}, "v");
  // The reader meets "late" before it meets the depth.
  EXPECT_EQ(code_of(read(model_of({node("Relu", {"late"}, {"y"}), if_node(deep, "late")}))),
            ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ctxgen
