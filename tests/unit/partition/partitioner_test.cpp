#include <gtest/gtest.h>

#include "graph_fixture.h"

namespace ctxgen {
namespace {

using Names = std::vector<std::string>;

Assignment partition(const GraphFixture& f, std::vector<const Provider*> providers) {
  auto result = partition_graph(f.model, f.model.graph, providers);
  EXPECT_TRUE(result) << result.error().message;
  return std::move(*result);
}

/// x - a(A) - b(B) - c(A) - y
GraphFixture chain() {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("b", "B", {"1"}, {"2"});
  f.add("c", "A", {"2"}, {"y"});
  f.output("y");
  return f;
}

TEST(PartitionGraph, FirstInTheListIsServedFirst) {
  const GraphFixture f = chain();
  const ClaimingProvider all("all", {"A", "B"}), some("some", {"B"});
  ClaimingProvider cpu("cpu", {"A", "B"});
  cpu.compiling = false;
  const Assignment first = partition(f, {&all, &some, &cpu});
  EXPECT_EQ(first.partitions[0].size(), 1U);
  EXPECT_TRUE(first.partitions[1].empty());

  const Assignment second = partition(f, {&some, &all, &cpu});
  ASSERT_EQ(second.partitions[0].size(), 1U);
  EXPECT_EQ(f.names(second.partitions[0][0].nodes), Names{"b"});
  ASSERT_EQ(second.partitions[1].size(), 2U);
  EXPECT_EQ(f.names(second.partitions[1][0].nodes), Names{"a"});
  EXPECT_EQ(f.names(second.partitions[1][1].nodes), Names{"c"});
}

TEST(PartitionGraph, WhatIsLeftGoesToCpuWithReasons) {
  const GraphFixture f = chain();
  const ClaimingProvider a("first", {"A"});
  ClaimingProvider cpu("cpu", {"B"});
  cpu.compiling = false;
  const Assignment result = partition(f, {&a, &cpu});
  EXPECT_EQ(result.partitions[0].size(), 2U);
  EXPECT_EQ(result.nodes[1].provider, 1);
  EXPECT_EQ(result.nodes[1].partition, -1);
  EXPECT_EQ(result.nodes[1].reasons, Names{"first: not mine"});
}

TEST(PartitionGraph, NodeThatNobodyTakesIsNobodys) {
  const GraphFixture f = chain();
  const ClaimingProvider a("first", {"A"});
  const Assignment result = partition(f, {&a});
  EXPECT_EQ(result.nodes[1].provider, -1);
}

TEST(PartitionGraph, ClaimWithATakenNodeIsRefusedWholeAndReported) {
  const GraphFixture f = chain();
  const ClaimingProvider first("first", {"B"});
  ClaimingProvider second("second");
  second.extra_claims = {{{NodeId{0}, NodeId{1}}, false}, {{NodeId{2}}, false}};
  const Assignment result = partition(f, {&first, &second});
  ASSERT_EQ(result.partitions[1].size(), 1U);
  EXPECT_EQ(f.names(result.partitions[1][0].nodes), Names{"c"});
  EXPECT_EQ(result.nodes[0].provider, -1);
  ASSERT_EQ(result.warnings.size(), 1U);
  EXPECT_NE(result.warnings[0].find("second"), std::string::npos);
}

TEST(PartitionGraph, ClaimsThatOverlapEachOtherAreRefused) {
  const GraphFixture f = chain();
  ClaimingProvider p("p");
  p.extra_claims = {{{NodeId{0}, NodeId{1}}, false},
                    {{NodeId{1}, NodeId{2}}, false},
                    {{NodeId{7}}, false},
                    {{}, false},
                    {{NodeId{2}, NodeId{2}}, false}};
  const Assignment result = partition(f, {&p});
  ASSERT_EQ(result.partitions[0].size(), 1U);
  EXPECT_EQ(f.names(result.partitions[0][0].nodes), (Names{"a", "b"}));
  EXPECT_EQ(result.warnings.size(), 4U);
}

TEST(PartitionGraph, GlueJoinsWorkBesideIt) {
  GraphFixture f;
  f.input("x");
  f.add("g1", "Reshape", {"x"}, {"1"});
  f.add("a", "A", {"1"}, {"2"});
  f.add("u", "U", {"2"}, {"3"});
  f.add("g2", "Reshape", {"3"}, {"4"});
  f.add("g3", "Reshape", {"4"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"}, {"Reshape"});
  const Assignment result = partition(f, {&p});
  ASSERT_EQ(result.partitions[0].size(), 1U);
  EXPECT_EQ(f.names(result.partitions[0][0].nodes), (Names{"g1", "a"}));
  EXPECT_EQ(result.nodes[3].provider, -1);
  EXPECT_EQ(result.nodes[3].reasons.size(), 1U + 0U);
}

TEST(PartitionGraph, BoundariesListWhatCrossesThem) {
  GraphFixture f;
  f.input("x");
  f.initializer("w");
  f.add("a", "A", {"x", "w"}, {"1"});
  f.add("b", "A", {"1", "", "x"}, {"2"});
  f.add("u", "U", {"1"}, {"3"});
  f.add("c", "A", {"3", "2"}, {"y"});
  f.output("y");
  f.output("1");
  const ClaimingProvider p("p", {"A"});
  const Assignment result = partition(f, {&p});
  ASSERT_EQ(result.partitions[0].size(), 2U);
  const Partition& first = result.partitions[0][0];
  EXPECT_EQ(f.names(first.nodes), (Names{"a", "b"}));
  EXPECT_EQ(f.names(first.inputs), Names{"x"});
  EXPECT_EQ(f.names(first.outputs), (Names{"1", "2"}));
  EXPECT_EQ(f.names(result.partitions[0][1].inputs), (Names{"3", "2"}));
}

TEST(PartitionGraph, OverridableInitializersAreInputs) {
  GraphFixture f;
  f.input("x");
  f.initializer("w");
  f.input("w");
  f.graph().value(f.value("w")).is_overridable = true;
  f.add("a", "A", {"x", "w"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  const Assignment result = partition(f, {&p});
  EXPECT_EQ(f.names(result.partitions[0][0].inputs), (Names{"x", "w"}));
}

TEST(PartitionGraph, NoPartitionWithoutInputs) {
  GraphFixture f;
  f.initializer("w");
  f.add("a", "A", {"w"}, {"y"});
  f.output("y");
  const ClaimingProvider p("p", {"A"});
  EXPECT_TRUE(partition(f, {&p}).partitions[0].empty());
}

TEST(PartitionGraph, NoPartitionWhoseResultsNobodyReads) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("shape", "Shape", {"1"}, {"2"});
  f.fold("2");
  f.add("b", "A", {"x", "2"}, {"y"});
  f.output("y");
  ClaimingProvider cpu("cpu");
  cpu.compiling = false;
  ClaimingProvider p("p"), q("q");
  p.extra_claims = {{{NodeId{0}}, false}};
  q.extra_claims = {{{NodeId{2}}, false}};
  const Assignment result = partition(f, {&p, &q, &cpu});
  EXPECT_TRUE(result.partitions[0].empty());
  EXPECT_EQ(result.nodes[0].provider, 2);
  EXPECT_EQ(result.partitions[1].size(), 1U);
}

TEST(PartitionGraph, ForbiddenBoundaryTypeGivesThePartitionBack) {
  for (const DataType type : {DataType::kString, DataType::kInt4, DataType::kFloat8E4M3FN}) {
    GraphFixture f = chain();
    f.graph().value(f.value("1")).type.element = type;
    const ClaimingProvider p("p", {"A"});
    const Assignment result = partition(f, {&p});
    ASSERT_EQ(result.partitions[0].size(), 1U) << name_of(type);
    EXPECT_EQ(f.names(result.partitions[0][0].nodes), Names{"c"});
  }
}

// Whatever is between them: the nodes of one claim are taken together or not at all.
TEST(PartitionGraph, AGlueClaimIsKeptWholeBesideWork) {
  GraphFixture f;
  f.input("x");
  f.input("z");
  f.add("g1", "G", {"x"}, {"1"});
  f.add("a", "A", {"1"}, {"y"});
  f.add("g2", "G", {"z"}, {"w"});
  f.output("y");
  f.output("w");
  ClaimingProvider p("p", {"A"});
  p.extra_claims = {{{NodeId{0}, NodeId{2}}, true}};
  const Assignment result = partition(f, {&p});
  ASSERT_EQ(result.partitions[0].size(), 1U);
  EXPECT_EQ(f.names(result.partitions[0][0].nodes), (Names{"g1", "a", "g2"}));
}

TEST(PartitionGraph, TheFirstExclusionOfAClaimIsItsReason) {
  const GraphFixture f = chain();
  ClaimingProvider first("first"), second("second", {"A", "B"});
  first.extra_claims = {{{NodeId{0}, NodeId{1}}, false}, {{NodeId{2}}, false}};
  const std::vector<const Provider*> providers{&first, &second};
  const std::vector<Exclusion> exclusions{{1, {NodeId{2}, "of the other"}},
                                          {0, {NodeId{1}, "one"}},
                                          {0, {NodeId{0}, "two"}},
                                          {0, {NodeId{1}, "three"}}};
  const auto result = partition_graph(f.model, f.model.graph, providers, exclusions);
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->partitions[0].size(), 1U);
  EXPECT_EQ(f.names(result->partitions[0][0].nodes), Names{"c"});
  ASSERT_EQ(result->partitions[1].size(), 1U);
  EXPECT_EQ(f.names(result->partitions[1][0].nodes), (Names{"a", "b"}));
  EXPECT_EQ(result->nodes[0].reasons.back(), "first: one");
}

}  // namespace
}  // namespace ctxgen
