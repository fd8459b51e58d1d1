#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "ctxgen/partition/partitioner.h"

namespace ctxgen {
namespace {

/// The graph with claims and earlier units contracted to single vertices.
struct Quotient {
  std::vector<std::uint32_t> vertex_of;             // by node
  std::vector<std::int64_t> claim_of;               // by vertex: index of its claim, or -1
  std::vector<std::vector<std::uint32_t>> next;     // successors, may repeat
  std::vector<std::uint32_t> predecessor_count;
};

Quotient contract(const Graph& graph, std::span<const NodeSet> claims,
                  std::span<const NodeSet> units, const std::vector<bool>& refused) {
  Quotient q;
  q.vertex_of.assign(graph.node_count(), UINT32_MAX);
  auto add_vertex = [&](std::span<const NodeId> nodes, std::int64_t claim) {
    const auto vertex = static_cast<std::uint32_t>(q.claim_of.size());
    for (NodeId node : nodes) q.vertex_of[node.index] = vertex;
    q.claim_of.push_back(claim);
  };
  for (const NodeSet& unit : units) add_vertex(unit, -1);
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (!refused[i]) add_vertex(claims[i], static_cast<std::int64_t>(i));
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const NodeId id{n};
    if (q.vertex_of[n] == UINT32_MAX) add_vertex(std::span(&id, 1), -1);
  }

  q.next.resize(q.claim_of.size());
  q.predecessor_count.assign(q.claim_of.size(), 0);
  for (const Value& value : graph.values()) {
    // A constant is known without running its producer, so it orders nothing.
    if (!value.producer.valid() || value.constant() != nullptr) continue;
    const std::uint32_t from = q.vertex_of[value.producer.index];
    for (NodeId consumer : value.consumers) {
      const std::uint32_t to = q.vertex_of[consumer.index];
      if (from == to) continue;
      q.next[from].push_back(to);
      ++q.predecessor_count[to];
    }
  }
  return q;
}

/// Levels by Kahn's algorithm; vertices on a cycle keep -1.
std::vector<std::int64_t> levels(const Quotient& q) {
  std::vector<std::int64_t> level(q.claim_of.size(), -1);
  std::vector<std::int64_t> lower_bound(q.claim_of.size(), 0);
  std::vector<std::uint32_t> waiting = q.predecessor_count;
  std::vector<std::uint32_t> ready;
  for (std::uint32_t v = 0; v < waiting.size(); ++v)
    if (waiting[v] == 0) ready.push_back(v);
  while (!ready.empty()) {
    const std::uint32_t v = ready.back();
    ready.pop_back();
    level[v] = lower_bound[v];
    for (std::uint32_t to : q.next[v]) {
      const bool leaves = q.claim_of[v] >= 0 && q.claim_of[to] < 0;
      lower_bound[to] = std::max(lower_bound[to], level[v] + (leaves ? 1 : 0));
      if (--waiting[to] == 0) ready.push_back(to);
    }
  }
  return level;
}

}  // namespace

ConvexResult merge_convex(const Graph& graph, std::span<const NodeSet> claims,
                          std::span<const NodeSet> units) {
  ConvexResult result;
  std::vector<bool> refused(claims.size(), false);
  for (;;) {
    const Quotient q = contract(graph, claims, units, refused);
    const std::vector<std::int64_t> level = levels(q);
    // A cycle goes through a claim of several nodes that something outside lies between. Refusing
    // the first one, smallest first, leaves the others a chance.
    std::int64_t culprit = -1;
    for (std::size_t v = 0; v < level.size(); ++v) {
      const std::int64_t claim = q.claim_of[v];
      if (level[v] >= 0 || claim < 0 || claims[static_cast<std::size_t>(claim)].size() < 2) continue;
      if (culprit < 0 || claims[static_cast<std::size_t>(claim)].size() <
                             claims[static_cast<std::size_t>(culprit)].size())
        culprit = claim;
    }
    if (culprit >= 0) {
      refused[static_cast<std::size_t>(culprit)] = true;
      result.not_convex.push_back(static_cast<std::size_t>(culprit));
      continue;
    }
    std::map<std::int64_t, NodeSet> by_level;
    for (std::size_t v = 0; v < level.size(); ++v) {
      if (q.claim_of[v] < 0) continue;
      const NodeSet& claim = claims[static_cast<std::size_t>(q.claim_of[v])];
      NodeSet& nodes = by_level[level[v]];
      nodes.insert(nodes.end(), claim.begin(), claim.end());
    }
    for (auto& [unused, nodes] : by_level) {
      std::ranges::sort(nodes);
      result.partitions.push_back(std::move(nodes));
    }
    return result;
  }
}

}  // namespace ctxgen
