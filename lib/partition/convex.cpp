#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

#include "ctxgen/partition/partitioner.h"

namespace ctxgen {
namespace {

/// The graph with claims and earlier units contracted to single vertices.
struct Quotient {
  std::vector<std::uint32_t> vertex_of;          // by node
  std::vector<std::int64_t> claim_of;            // by vertex: index of its claim, or -1
  std::vector<std::vector<std::uint32_t>> next;  // successors, may repeat
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

/// The claims that are on cycles of claims only, joined: together they are convex, and they would be
/// one partition anyway. Tarjan's algorithm (1972) without recursion.
class CycleFinder {
 public:
  explicit CycleFinder(const Quotient& q)
      : q_(q), index_(q.next.size(), kNone), low_(q.next.size(), 0), on_stack_(q.next.size()) {}

  /// Strongly connected components of more than one vertex.
  std::vector<std::vector<std::uint32_t>> run() {
    for (std::uint32_t v = 0; v < index_.size(); ++v)
      if (index_[v] == kNone) visit(v);
    return std::move(cycles_);
  }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Frame {
    std::uint32_t vertex;
    std::size_t edge;
  };

  void enter(std::uint32_t v) {
    index_[v] = low_[v] = count_++;
    stack_.push_back(v);
    on_stack_[v] = true;
    frames_.push_back({v, 0});
  }

  void visit(std::uint32_t root) {
    enter(root);
    while (!frames_.empty()) {
      const std::uint32_t v = frames_.back().vertex;
      if (frames_.back().edge == q_.next[v].size()) {
        frames_.pop_back();
        if (!frames_.empty())
          low_[frames_.back().vertex] = std::min(low_[frames_.back().vertex], low_[v]);
        if (low_[v] == index_[v]) leave(v);
        continue;
      }
      const std::uint32_t to = q_.next[v][frames_.back().edge++];
      if (index_[to] == kNone)
        enter(to);
      else if (on_stack_[to])
        low_[v] = std::min(low_[v], index_[to]);
    }
  }

  void leave(std::uint32_t root) {
    std::vector<std::uint32_t> component;
    std::uint32_t v = kNone;
    do {
      v = stack_.back();
      stack_.pop_back();
      on_stack_[v] = false;
      component.push_back(v);
    } while (v != root);
    if (component.size() > 1) cycles_.push_back(std::move(component));
  }

  const Quotient& q_;
  std::vector<std::uint32_t> index_, low_, stack_;
  std::vector<bool> on_stack_;
  std::vector<Frame> frames_;
  std::uint32_t count_ = 0;
  std::vector<std::vector<std::uint32_t>> cycles_;
};

/// Levels by Kahn's algorithm. Requires  no cycle.
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

void collect(const Quotient& q, std::span<const std::int64_t> level, std::span<const NodeSet> sets,
             ConvexResult& result) {
  std::map<std::int64_t, NodeSet> by_level;
  for (std::size_t v = 0; v < level.size(); ++v) {
    if (q.claim_of[v] < 0) continue;
    const NodeSet& claim = sets[static_cast<std::size_t>(q.claim_of[v])];
    NodeSet& nodes = by_level[level[v]];
    nodes.insert(nodes.end(), claim.begin(), claim.end());
  }
  for (auto& [unused, nodes] : by_level) {
    std::ranges::sort(nodes);
    result.partitions.push_back(std::move(nodes));
  }
}

void join(std::span<const std::size_t> indices, std::vector<NodeSet>& sets,
          std::vector<std::vector<std::size_t>>& members, std::vector<bool>& gone) {
  const std::size_t into = indices.front();
  for (const std::size_t index : indices.subspan(1)) {
    sets[into].insert(sets[into].end(), sets[index].begin(), sets[index].end());
    members[into].insert(members[into].end(), members[index].begin(), members[index].end());
    gone[index] = true;
  }
  std::ranges::sort(sets[into]);
}

/// Rounds of "refuse a claim of each cycle, look again", each over the whole graph. Real graphs end
/// after a few; after these as many more claims are refused each round, so hostile ones end too.
constexpr std::size_t kCarefulRounds = 32;

/// Of claims that form a cycle with what is outside, those to refuse in this round: the smallest, which
/// leaves the others a chance. Single nodes are never at fault.
std::vector<std::size_t> choose_culprits(std::vector<std::size_t> on_cycle,
                                         std::span<const NodeSet> sets, std::size_t round) {
  std::erase_if(on_cycle, [&](std::size_t i) { return sets[i].size() < 2; });
  std::ranges::stable_sort(on_cycle, {}, [&](std::size_t i) { return sets[i].size(); });
  const std::size_t doublings = std::min<std::size_t>(round - std::min(round, kCarefulRounds), 32);
  on_cycle.resize(std::min(on_cycle.size(), std::size_t{1} << doublings));
  return on_cycle;
}

}  // namespace

ConvexResult merge_convex(const Graph& graph, std::span<const NodeSet> claims,
                          std::span<const NodeSet> units) {
  ConvexResult result;
  std::vector<NodeSet> sets(claims.begin(), claims.end());
  std::vector<std::vector<std::size_t>> members(claims.size());  // the claims in each set
  for (std::size_t i = 0; i < claims.size(); ++i) members[i] = {i};
  std::vector<bool> gone(claims.size(), false);  // refused, or joined to another set
  for (std::size_t round = 0;; ++round) {
    const Quotient q = contract(graph, sets, units, gone);
    const auto cycles = CycleFinder(q).run();
    if (cycles.empty()) {
      collect(q, levels(q), sets, result);
      return result;
    }
    for (const std::vector<std::uint32_t>& cycle : cycles) {
      std::vector<std::size_t> on_cycle;
      for (const std::uint32_t v : cycle)
        if (q.claim_of[v] >= 0) on_cycle.push_back(static_cast<std::size_t>(q.claim_of[v]));
      if (on_cycle.size() == cycle.size()) {
        join(on_cycle, sets, members, gone);
        continue;
      }
      // Something outside is between the nodes of a claim.
      const auto culprits = choose_culprits(std::move(on_cycle), sets, round);
      CTXGEN_ASSERT(!culprits.empty());  // units came from here: they are convex
      for (const std::size_t culprit : culprits) {
        gone[culprit] = true;
        std::ranges::copy(members[culprit], std::back_inserter(result.not_convex));
      }
    }
  }
}

}  // namespace ctxgen
