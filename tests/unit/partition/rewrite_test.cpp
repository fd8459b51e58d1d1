#include "ctxgen/partition/rewrite.h"

#include <gtest/gtest.h>

#include "graph_fixture.h"

namespace ctxgen {
namespace {

using Names = std::vector<std::string>;

struct Planned {
  Assignment assignment;
  ModelRewrite rewrite;
};

Planned plan(const GraphFixture& f, const Provider& provider, bool freeze = false) {
  const Provider* const list[] = {&provider};
  Planned planned{*partition_graph(f.model, f.model.graph, list), {}};
  std::vector<CompiledNode> nodes;
  for (const Partition& partition : planned.assignment.partitions[0]) {
    CompiledNode node;
    node.partition = &partition;
    node.attributes.partition_name = "part" + std::to_string(nodes.size());
    nodes.push_back(node);
  }
  planned.rewrite = plan_rewrite(f.model, planned.assignment, nodes, {}, freeze);
  return planned;
}

Names order(const GraphFixture& f, const ModelRewrite& rewrite) {
  Names names;
  for (const NodeToWrite& node : rewrite.nodes)
    names.push_back(node.kind == NodeToWrite::Kind::kNode
                        ? f.model.graph.node(node.node).name
                        : rewrite.ep_contexts[node.ep_context].name);
  return names;
}

TEST(PlanRewrite, PartitionsStandInTopologicalOrder) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"x"}, {"2"});
  f.add("b", "A", {"1", "2"}, {"3"});
  f.add("v", "U", {"3"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  const Planned planned = plan(f, p);
  EXPECT_EQ(order(f, planned.rewrite), (Names{"u", "part0", "v"}));
}

TEST(PlanRewrite, InitializersThatOnlyPartitionsUsedAreGone) {
  GraphFixture f;
  f.input("x");
  for (const char* name : {"compiled", "both", "outside", "unused"}) f.initializer(name);
  f.add("a", "A", {"x", "compiled", "both"}, {"1"});
  f.add("u", "U", {"1", "both", "outside"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_EQ(f.names(plan(f, p).rewrite.initializers), (Names{"both", "outside", "unused"}));
}

TEST(PlanRewrite, FoldedNodesStayOnlyForReadersOutside) {
  GraphFixture f;
  f.input("x");
  f.initializer("w");
  f.add("const1", "C", {"w"}, {"c1"});
  f.add("const2", "C", {"w"}, {"c2"});
  f.fold("c1");
  f.fold("c2");
  f.add("a", "A", {"x", "c1"}, {"1"});
  f.add("u", "U", {"1", "c2"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_EQ(order(f, plan(f, p).rewrite), (Names{"const2", "part0", "u"}));
}

TEST(PlanRewrite, InputOfARemovedConstantGoesWithIt) {
  GraphFixture f;  // IR < 4: initializers are inputs too, and not overridable
  f.input("x");
  f.initializer("w");
  f.input("w");
  f.add("a", "A", {"x", "w"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_EQ(f.names(plan(f, p).rewrite.inputs), Names{"x"});
}

TEST(PlanRewrite, OverridableInitializersStayUnlessFrozen) {
  GraphFixture f;
  f.input("x");
  f.initializer("w");
  f.input("w");
  f.graph().value(f.value("w")).is_overridable = true;
  f.add("a", "A", {"x", "w"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  const ModelRewrite open = plan(f, p).rewrite;
  EXPECT_EQ(f.names(open.inputs), (Names{"x", "w"}));
  EXPECT_EQ(f.names(open.initializers), Names{"w"});
  EXPECT_EQ(f.names(open.ep_contexts.at(0).inputs), (Names{"x", "w"}));

  f.graph().value(f.value("w")).is_overridable = false;
  const ModelRewrite frozen = plan(f, p, true).rewrite;
  EXPECT_EQ(f.names(frozen.inputs), Names{"x"});
  EXPECT_TRUE(frozen.initializers.empty());
}

TEST(PlanRewrite, BoundariesGetValueInfo) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"1"}, {"2"});
  f.add("b", "A", {"2"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_EQ(f.names(plan(f, p).rewrite.value_infos), (Names{"1", "2"}));
}

TEST(PlanRewrite, EpContextNamesDoNotClashWithNodes) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("part0", "U", {"1"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_EQ(plan(f, p).rewrite.ep_contexts.at(0).name, "part0_");
}

}  // namespace
}  // namespace ctxgen
