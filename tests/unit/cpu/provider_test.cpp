#include "ctxgen/cpu/provider.h"

#include <gtest/gtest.h>

namespace ctxgen::cpu {
namespace {

Node node_of(Graph& graph, std::string op_type, std::string input, std::string output) {
  Node node;
  node.op_type = std::move(op_type);
  node.opset = 13;
  node.inputs = {graph.find_or_add(input)};
  node.outputs = {graph.find_or_add(output)};
  return node;
}

TEST(CpuProvider, ClaimsWhatHasAKernelAndSaysWhyNot) {
  Model model;
  model.graph.add_node(node_of(model.graph, "Relu", "x", "a"));
  model.graph.add_node(node_of(model.graph, "Mystery", "a", "b"));
  model.graph.add_node(node_of(model.graph, "Exp", "b", "c"));
  GraphView view(model, model.graph);
  view.take(NodeId{2});
  const auto provider = make_provider();
  const auto capabilities = provider->capabilities(view);
  ASSERT_TRUE(capabilities);
  ASSERT_EQ(capabilities->claims.size(), 1u);
  EXPECT_EQ(capabilities->claims[0].nodes, std::vector<NodeId>{NodeId{0}});
  ASSERT_EQ(capabilities->rejections.size(), 1u);
  EXPECT_EQ(capabilities->rejections[0].node, NodeId{1});
  EXPECT_EQ(capabilities->rejections[0].reason,
            "operator Mystery (ai.onnx, opset 13) has no cpu kernel");
}

TEST(CpuProvider, CompilesNothing) {
  const auto provider = make_provider();
  EXPECT_EQ(provider->name(), "cpu");
  EXPECT_EQ(provider->source(), "CtxgenCpuExecutionProvider");
  EXPECT_FALSE(provider->compiles());
  EXPECT_EQ(provider->loader(), nullptr);
}

}  // namespace
}  // namespace ctxgen::cpu
