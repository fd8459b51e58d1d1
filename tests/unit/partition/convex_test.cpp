#include <gtest/gtest.h>

#include <random>

#include "graph_fixture.h"

namespace ctxgen {
namespace {

NodeSet ids(std::initializer_list<std::uint32_t> indices) {
  NodeSet set;
  for (std::uint32_t i : indices) set.push_back(NodeId{i});
  return set;
}

TEST(MergeConvex, ChainIsOnePartition) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("b", "A", {"1"}, {"2"});
  f.add("c", "A", {"2"}, {"3"});
  const std::vector<NodeSet> claims{ids({0}), ids({1}), ids({2})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  ASSERT_EQ(result.partitions.size(), 1U);
  EXPECT_EQ(result.partitions[0], ids({0, 1, 2}));
}

// a feeds both the unclaimed u and b; b needs u too. {a, b} would have a path a-u-b outside.
TEST(MergeConvex, PathThroughUnclaimedNodeSplits) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"1"}, {"2"});
  f.add("b", "A", {"1", "2"}, {"3"});
  const std::vector<NodeSet> claims{ids({0}), ids({2})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  ASSERT_EQ(result.partitions.size(), 2U);
  EXPECT_EQ(result.partitions[0], ids({0}));
  EXPECT_EQ(result.partitions[1], ids({2}));
}

TEST(MergeConvex, ParallelBranchesJoinAroundAnUnclaimedOne) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"x"}, {"2"});
  f.add("b", "A", {"1"}, {"3"});
  f.add("c", "A", {"3", "2"}, {"4"});
  const std::vector<NodeSet> claims{ids({0}), ids({2}), ids({3})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  ASSERT_EQ(result.partitions.size(), 1U);
}

// Claim {a, c} has claim {b} between its nodes: together they are convex.
TEST(MergeConvex, ClaimAroundAnotherClaimJoinsIt) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("b", "A", {"1"}, {"2"});
  f.add("c", "A", {"1", "2"}, {"3"});
  f.add("u", "U", {"3"}, {"4"});
  f.add("d", "A", {"4"}, {"5"});
  const std::vector<NodeSet> claims{ids({0, 2}), ids({1}), ids({4})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  EXPECT_TRUE(result.not_convex.empty());
  ASSERT_EQ(result.partitions.size(), 2U);
  EXPECT_EQ(result.partitions[0], ids({0, 1, 2}));
  EXPECT_EQ(result.partitions[1], ids({4}));
}

// Two claims that each have a node of the other between theirs.
TEST(MergeConvex, InterlockedClaimsJoin) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("b", "A", {"1"}, {"2"});
  f.add("c", "A", {"2"}, {"3"});
  f.add("d", "A", {"3"}, {"4"});
  const std::vector<NodeSet> claims{ids({0, 2}), ids({1, 3})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  EXPECT_TRUE(result.not_convex.empty());
  ASSERT_EQ(result.partitions.size(), 1U);
  EXPECT_EQ(result.partitions[0], ids({0, 1, 2, 3}));
}

// The one with an unclaimed node in between is refused whole; what lies behind it is not.
TEST(MergeConvex, ARefusedClaimLeavesWhatLiesBehindIt) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"1"}, {"2"});
  f.add("b", "A", {"1", "2"}, {"3"});
  f.add("c", "A", {"3"}, {"4"});
  f.add("d", "A", {"4"}, {"5"});
  const std::vector<NodeSet> claims{ids({0, 2}), ids({3, 4})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  EXPECT_EQ(result.not_convex, std::vector<std::size_t>{0});
  ASSERT_EQ(result.partitions.size(), 1U);
  EXPECT_EQ(result.partitions[0], ids({3, 4}));
}

TEST(MergeConvex, ClaimAroundAnUnclaimedNodeIsRefused) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("u", "U", {"1"}, {"2"});
  f.add("b", "A", {"1", "2"}, {"3"});
  const std::vector<NodeSet> claims{ids({0, 2})};
  const ConvexResult result = merge_convex(f.graph(), claims, {});
  EXPECT_TRUE(result.partitions.empty());
  EXPECT_EQ(result.not_convex, std::vector<std::size_t>{0});
}

// A partition of an earlier provider that spans both sides of a claim must not form a cycle with it.
TEST(MergeConvex, EarlierPartitionCountsAsOneVertex) {
  GraphFixture f;
  f.input("x");
  f.input("y");
  f.add("p1", "P", {"x"}, {"1"});
  f.add("a", "A", {"1"}, {"2"});
  f.add("p2", "P", {"y"}, {"3"});
  f.add("b", "A", {"3", "2"}, {"4"});
  const std::vector<NodeSet> units{ids({0, 2})};
  const std::vector<NodeSet> claims{ids({1}), ids({3})};
  const ConvexResult result = merge_convex(f.graph(), claims, units);
  ASSERT_EQ(result.partitions.size(), 1U);
  EXPECT_EQ(result.partitions[0], ids({1, 3}));
}

TEST(MergeConvex, ConstantsOrderNothing) {
  GraphFixture f;
  f.input("x");
  f.add("a", "A", {"x"}, {"1"});
  f.add("shape", "Shape", {"1"}, {"2"});
  f.fold("2");
  f.add("b", "A", {"1", "2"}, {"3"});
  const std::vector<NodeSet> claims{ids({0}), ids({2})};
  EXPECT_EQ(merge_convex(f.graph(), claims, {}).partitions.size(), 1U);
}

/// Whether a path leaves `set` and comes back, by brute force.
bool is_convex(const Graph& graph, const NodeSet& set) {
  std::vector<int> state(graph.node_count(), 0);  // 1: reached from the set through outside
  std::vector<bool> inside(graph.node_count(), false);
  for (NodeId id : set) inside[id.index] = true;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {  // nodes are in topological order
    for (ValueId input : graph.node(NodeId{n}).inputs) {
      const NodeId from = graph.value(input).producer;
      if (!from.valid()) continue;
      if (state[from.index] == 1) {
        if (inside[n]) return false;
        state[n] = 1;
      }
      if (inside[from.index] && !inside[n]) state[n] = 1;
    }
  }
  return true;
}

TEST(MergeConvex, RandomGraphsGiveConvexPartitionsInOrder) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    GraphFixture f;
    f.input("v0");
    const unsigned count = 2 + random() % 40;
    std::vector<NodeSet> claims;
    for (unsigned n = 0; n < count; ++n) {
      std::vector<std::string> inputs;
      for (unsigned i = 0; i < 1 + random() % 3; ++i)
        inputs.push_back("v" + std::to_string(random() % (n + 1)));
      const NodeId id = f.add("n" + std::to_string(n), "A", inputs, {"v" + std::to_string(n + 1)});
      if (random() % 3 != 0) claims.push_back({id});
    }
    const ConvexResult result = merge_convex(f.graph(), claims, {});
    EXPECT_TRUE(result.not_convex.empty());
    std::vector<int> partition_of(count, -1);
    std::size_t covered = 0;
    for (std::size_t p = 0; p < result.partitions.size(); ++p) {
      EXPECT_TRUE(is_convex(f.graph(), result.partitions[p]));
      for (NodeId id : result.partitions[p]) partition_of[id.index] = static_cast<int>(p);
      covered += result.partitions[p].size();
    }
    EXPECT_EQ(covered, claims.size());
    for (const Value& value : f.graph().values()) {
      if (!value.producer.valid()) continue;
      for (NodeId c : value.consumers) {
        if (partition_of[value.producer.index] < 0 || partition_of[c.index] < 0) continue;
        EXPECT_LE(partition_of[value.producer.index], partition_of[c.index]);
      }
    }
  }
}

}  // namespace
}  // namespace ctxgen
