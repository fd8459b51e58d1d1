#include <algorithm>
#include <random>

#include <gtest/gtest.h>

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

// All of them lie around the same unclaimed node: one cycle, from which more and more are taken.
TEST(MergeConvex, EveryClaimOfALargeCycleIsRefusedOnce) {
  constexpr std::uint32_t kClaims = 300;
  GraphFixture f;
  f.input("x");
  std::vector<std::string> before;
  for (std::uint32_t i = 0; i < kClaims; ++i) {
    before.push_back("a" + std::to_string(i));
    f.add(before.back(), "A", {"x"}, {before.back()});
  }
  f.add("u", "U", before, {"u"});
  std::vector<NodeSet> claims;
  for (std::uint32_t i = 0; i < kClaims; ++i) {
    const NodeId behind = f.add("c" + std::to_string(i), "A", {"u"}, {"c" + std::to_string(i)});
    claims.push_back({NodeId{i}, behind});
  }
  ConvexResult result = merge_convex(f.graph(), claims, {});
  EXPECT_TRUE(result.partitions.empty());
  ASSERT_EQ(result.not_convex.size(), kClaims);
  std::ranges::sort(result.not_convex);
  for (std::size_t i = 0; i < kClaims; ++i) EXPECT_EQ(result.not_convex[i], i);
}

/// Whether the graph has no cycle when each partition of every provider is one vertex.
bool is_acyclic_when_contracted(const Graph& graph, const Assignment& assignment) {
  std::size_t vertices = graph.node_count();
  std::vector<std::size_t> vertex_of(vertices);
  for (std::size_t n = 0; n < vertex_of.size(); ++n) vertex_of[n] = n;
  for (const auto& of_provider : assignment.partitions)
    for (const Partition& partition : of_provider) {
      for (const NodeId node : partition.nodes) vertex_of[node.index] = vertices;
      ++vertices;
    }
  std::vector<std::vector<std::size_t>> next(vertices);
  std::vector<std::size_t> waiting(vertices, 0), ready;
  for (const Value& value : graph.values()) {
    if (!value.producer.valid() || value.constant() != nullptr) continue;
    for (const NodeId consumer : value.consumers) {
      const std::size_t from = vertex_of[value.producer.index], to = vertex_of[consumer.index];
      if (from == to) continue;
      next[from].push_back(to);
      ++waiting[to];
    }
  }
  for (std::size_t v = 0; v < vertices; ++v)
    if (waiting[v] == 0) ready.push_back(v);
  std::size_t ordered = 0;
  for (; ordered < ready.size(); ++ordered)
    for (const std::size_t to : next[ready[ordered]])
      if (--waiting[to] == 0) ready.push_back(to);
  return ordered == vertices;
}

/// Disjoint claims of one to four nodes anywhere in the graph; some are glue.
std::vector<Claim> random_claims(std::vector<NodeId> nodes, std::mt19937& random) {
  std::vector<Claim> claims;
  std::ranges::shuffle(nodes, random);
  while (!nodes.empty()) {
    Claim claim;
    claim.glue = random() % 4 == 0;
    for (std::size_t size = 1 + random() % 4; size > 0 && !nodes.empty(); --size) {
      claim.nodes.push_back(nodes.back());
      nodes.pop_back();
    }
    if (random() % 3 != 0) claims.push_back(std::move(claim));
  }
  return claims;
}

TEST(PartitionGraph, RandomClaimsOfSeveralProvidersGiveAGraphWithoutCycles) {
  std::size_t partitions = 0, refused = 0;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    GraphFixture f;
    f.input("v0");
    const unsigned count = 2 + random() % 40;
    const unsigned reach = 1 + random() % 40;  // a small one makes long chains
    std::vector<NodeId> nodes;
    for (unsigned n = 0; n < count; ++n) {
      std::vector<std::string> inputs;
      const unsigned first = n + 1 > reach ? n + 1 - reach : 0;
      for (unsigned i = 0; i < 1 + random() % 3; ++i)
        inputs.push_back("v" + std::to_string(first + random() % (n + 1 - first)));
      const std::string result = "v" + std::to_string(n + 1);
      const NodeId id = f.add("n" + std::to_string(n), "A", inputs, {result});
      if (random() % 10 == 0)
        f.fold(result);
      else
        nodes.push_back(id);
    }
    for (unsigned n = 0; n < count; ++n)
      if (const std::string name = "v" + std::to_string(n + 1);
          f.graph().value(f.value(name)).consumers.empty())
        f.output(name);
    ClaimingProvider p("p"), q("q");
    p.extra_claims = random_claims(nodes, random);
    q.extra_claims = random_claims(nodes, random);
    const ClaimingProvider* const both[] = {&p, &q};
    const auto result = partition_graph(f.model, f.graph(), std::vector<const Provider*>{&p, &q});
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(is_acyclic_when_contracted(f.graph(), *result));
    for (std::size_t i = 0; i < 2; ++i) {
      partitions += result->partitions[i].size();
      for (const Partition& partition : result->partitions[i])
        EXPECT_TRUE(std::ranges::is_sorted(partition.nodes));
      for (const Claim& claim : both[i]->extra_claims) {
        const auto place = [&](NodeId node) {
          const NodeAssignment& a = result->nodes[node.index];
          return a.provider == static_cast<int>(i) ? a.partition : -1;
        };
        for (const NodeId node : claim.nodes)
          EXPECT_EQ(place(node), place(claim.nodes.front())) << "a claim is taken apart";
      }
    }
    refused += result->warnings.size();
  }
  EXPECT_GT(partitions, 200U);  // not vacuous
  EXPECT_GT(refused, 200U);
}

}  // namespace
}  // namespace ctxgen
