#include <gmock/gmock.h>

#include "ctxgen/onnx_lite/read_model.h"

#include "code_of.h"
#include "proto_builder.h"

namespace ctxgen {
namespace {

using test::code_of;
using test::GraphParts;
using test::node;
using test::Proto;
using testing::ElementsAre;

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> out;
  for (const ValueId id : ids) out.push_back(id.valid() ? graph.value(id).name : "-");
  return out;
}

Proto branch(const std::vector<Proto>& nodes, std::string_view output) {
  GraphParts parts;
  parts.nodes = nodes;
  parts.outputs = {test::value_info(output, 1, {"?"})};
  return graph(parts, "branch");
}

Proto if_node(const Proto& then_branch, const Proto& else_branch, std::string_view output = "y") {
  return node(
      "If", {"flag"}, {output},
      {test::attr_graph("then_branch", then_branch), test::attr_graph("else_branch", else_branch)},
      "", "if");
}

Proto if_model(const Proto& then_branch, const Proto& else_branch) {
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.nodes = {node("Neg", {"x"}, {"n"}), if_node(then_branch, else_branch)};
  return test::model(graph(parts));
}

TEST(Subgraphs, OuterValuesAreCaptured) {
  const Proto then_branch =
      branch({node("Neg", {"n"}, {"a"}), node("Add", {"a", "x"}, {"t"})}, "t");
  const auto model =
      read_model(if_model(then_branch, branch({node("Neg", {"n"}, {"e"})}, "e")).blob(), {});
  ASSERT_EQ(code_of(model), test::kOk);
  const Graph& main = model->graph;
  const Node& holder = main.node(NodeId{1});
  EXPECT_THAT(names(main, holder.captures), ElementsAre("n", "x"));
  EXPECT_THAT(main.value(main.find("x")).consumers, ElementsAre(NodeId{0}, NodeId{1}));
  const Graph& inner = *holder.attribute("then_branch")->graphs.at(0);
  const Value& x = inner.value(inner.find("x"));
  EXPECT_TRUE(x.is_outer);
  EXPECT_EQ(to_string(x.type, *model), "float32[n, 4]");
  EXPECT_FALSE(inner.value(inner.find("a")).is_outer);
  EXPECT_FALSE(main.find("a").valid());
}

TEST(Subgraphs, CapturesGoThroughAllLevels) {
  GraphParts middle;
  middle.nodes = {if_node(branch({node("Neg", {"x"}, {"deep"})}, "deep"),
                          branch({node("Neg", {"local"}, {"deep2"})}, "deep2"), "m")};
  middle.nodes.insert(middle.nodes.begin(), node("Abs", {"n"}, {"local"}));
  middle.outputs = {test::value_info("m", 1, {"?"})};
  const auto model =
      read_model(if_model(graph(middle), branch({node("Neg", {"n"}, {"e"})}, "e")).blob(), {});
  ASSERT_EQ(code_of(model), test::kOk);
  const Node& outer = model->graph.node(NodeId{1});
  EXPECT_THAT(names(model->graph, outer.captures), ElementsAre("n", "flag", "x"));
  const Graph& inner = *outer.attribute("then_branch")->graphs.at(0);
  EXPECT_THAT(names(inner, inner.node(NodeId{1}).captures), ElementsAre("x", "local"));
  EXPECT_TRUE(inner.value(inner.find("x")).is_outer);
}

TEST(Subgraphs, AnOutputMayBeAnOuterValue) {
  const auto model = read_model(if_model(branch({}, "n"), branch({}, "x")).blob(), {});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_THAT(names(model->graph, model->graph.node(NodeId{1}).captures), ElementsAre("n", "x"));
}

TEST(Subgraphs, InitializersOfABranchAreItsOwn) {
  GraphParts parts;
  parts.initializers = {test::floats("w", {1}, {1})};
  parts.outputs = {test::value_info("w", 1, {"1"})};
  const auto model = read_model(if_model(graph(parts), branch({}, "x")).blob(), {});
  ASSERT_EQ(code_of(model), test::kOk);
  EXPECT_FALSE(model->graph.find("w").valid());
  const Graph& inner = *model->graph.node(NodeId{1}).attribute("then_branch")->graphs.at(0);
  EXPECT_NE(inner.value(inner.find("w")).constant(), nullptr);
}

TEST(Subgraphs, SeeNothingThatDependsOnThem) {
  GraphParts parts = test::relu_graph();
  parts.inputs.push_back(test::value_info("flag", 9, {}));
  parts.nodes = {if_node(branch({node("Neg", {"after"}, {"t"})}, "t"), branch({}, "x")),
                 node("Neg", {"y"}, {"after"})};
  EXPECT_EQ(code_of(read_model(test::model(graph(parts)).blob(), {})), ErrorCode::kInvalidGraph);
}

TEST(Subgraphs, ALocalNameAfterItsOuterNamesakeWasReadIsRefused) {
  const Proto twice = branch({node("Neg", {"n"}, {"a"}), node("Abs", {"a"}, {"n"})}, "n");
  EXPECT_EQ(code_of(read_model(if_model(twice, branch({}, "x")).blob(), {})),
            ErrorCode::kInvalidGraph);
}

Proto nested(int levels) {
  Proto inner = branch({}, "x");
  for (int i = 0; i < levels; ++i)
    inner =
        branch({if_node(inner, branch({}, "x"), "v" + std::to_string(i))}, "v" + std::to_string(i));
  return inner;
}

TEST(Subgraphs, NestingIsLimited) {
  EXPECT_EQ(code_of(read_model(if_model(nested(20), branch({}, "x")).blob(), {})), test::kOk);
  EXPECT_EQ(code_of(read_model(if_model(nested(40), branch({}, "x")).blob(), {})),
            ErrorCode::kResourceLimit);
  EXPECT_EQ(code_of(read_model(if_model(nested(2000), branch({}, "x")).blob(), {})),
            ErrorCode::kResourceLimit);
}

}  // namespace
}  // namespace ctxgen
