#include "dim_chains.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "dim_list.h"

namespace ctxgen::onednn {

namespace {

constexpr int kMostFolded = 16;  // nodes one after the other

/// Whether all results of a node are constants: it reads nothing in a run.
bool is_folded(const GraphView& view, NodeId id) {
  return std::ranges::all_of(view.graph().node(id).outputs, [&](ValueId output) {
    return !output.valid() || view.constant(output) != nullptr;
  });
}

}  // namespace

DimChains::DimChains(const GraphView& view, const NodeScope& scope,
                     const std::vector<bool>& allowed, SizeReaders readers,
                     const std::vector<bool>& taken)
    : view_(view),
      scope_(scope),
      allowed_(allowed),
      taken_(taken),
      vanishes_(scope.size()),
      reads_(scope.size()),
      follows_(scope.size()),
      level_(scope.size(), 0),
      given_(std::move(readers)) {
  for (const std::vector<NodeId>* all : {&given_.readers, &given_.takers})
    for (const NodeId reader : *all) reads_[scope_.place(reader)] = true;
  find_followers();
  for (const std::vector<NodeId>* all : {&given_.readers, &given_.takers})
    for (const NodeId reader : *all) collect(reader);
  settle();  // as if all nodes were of one level: those that stay for other reasons part others
  find_levels();
  settle();
  make_groups();
}

bool DimChains::takes(NodeId id) const { return std::ranges::binary_search(given_.takers, id); }

/// Marks all nodes that taken ones, or what these give, come before.
void DimChains::find_followers() {
  const Graph& graph = view_.graph();
  for (std::size_t n = 0; n < follows_.size(); ++n) {
    if (!follows_[n] && !taken_[n]) continue;
    for (const ValueId output : graph.node(scope_.at(n)).outputs)
      if (output.valid())
        for (const NodeId consumer : graph.value(output).consumers)
          if (const std::size_t to = scope_.place(consumer); to < follows_.size())
            follows_[to] = true;
  }
}

/// What a reader wants to have of sizes.
std::vector<ValueId> DimChains::lists_of(NodeId reader) const {
  const Node& node = view_.graph().node(reader);
  std::vector<ValueId> lists;
  if (!takes(reader)) {
    for (const std::size_t input : dim_list_inputs(view_, node)) lists.push_back(node.input(input));
    return lists;
  }
  for (const ValueId input : node.inputs) {
    const NodeId producer = input.valid() ? view_.graph().value(input).producer : NodeId{};
    if (producer.valid() && scope_.marked(allowed_, producer)) lists.push_back(input);
  }
  return lists;
}

/// Nodes of one level have no node of others on a way between them. What is taken together is of one level.
void DimChains::find_levels() {
  const Graph& graph = view_.graph();
  const auto ours = [&](std::size_t n) { return taken_[n] || vanishes_[n]; };
  // Each round settles one pattern at least: more are needed only where a node outside is between nodes of one.
  bool changed = true;
  for (std::size_t round = 0; changed && round <= given_.together.size(); ++round) {
    for (std::size_t n = 0; n < level_.size(); ++n)
      for (const ValueId output : graph.node(scope_.at(n)).outputs)
        if (output.valid() && view_.constant(output) == nullptr)
          for (const NodeId consumer : graph.value(output).consumers) {
            const std::size_t to = scope_.place(consumer);
            if (to < level_.size())
              level_[to] = std::max(level_[to], level_[n] + (ours(n) && !ours(to) ? 1 : 0));
          }
    changed = false;
    for (const std::vector<NodeId>& nodes : given_.together) {
      std::uint32_t level = 0;
      for (const NodeId id : nodes) level = std::max(level, level_[scope_.place(id)]);
      for (const NodeId id : nodes)
        changed = std::exchange(level_[scope_.place(id)], level) != level || changed;
    }
  }
}

/// Marks all nodes that the reader's sizes come from.
void DimChains::collect(NodeId reader) {
  const Node& reading = view_.graph().node(reader);
  if (!takes(reader) && !read_dim_lists(NodeView(view_, reading), dim_list_inputs(view_, reading)))
    return;
  std::vector<ValueId> open = lists_of(reader);
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!id.valid() || view_.constant(id) != nullptr) continue;
    const NodeId producer = view_.graph().value(id).producer;
    if (!producer.valid() || vanishes(producer) || !scope_.marked(allowed_, producer)) continue;
    const Node& node = view_.graph().node(producer);
    if (!is_dim_node(node)) continue;
    vanishes_[scope_.place(producer)] = true;
    std::ranges::copy(dim_inputs(node), std::back_inserter(open));
  }
}

/// Whether a node whose results are constants has readers that take them as such only: then nothing reads
/// its inputs. What was so in the whole graph is in its partitions, which do not see all readers.
bool DimChains::is_unread(NodeId folded, int depth) const {
  if (scope_.size() != view_.graph().node_count()) return true;
  return depth > 0 && std::ranges::all_of(view_.graph().node(folded).outputs, [&](ValueId output) {
           if (!output.valid()) return true;
           const Value& value = view_.graph().value(output);
           return !value.is_output && std::ranges::all_of(value.consumers, [&](NodeId consumer) {
             if (is_folded(view_, consumer)) return is_unread(consumer, depth - 1);
             return vanishes(consumer) || reads(consumer) || scope_.marked(taken_, consumer);
           });
         });
}

/// Whether a list is there without a node that stays.
bool DimChains::is_inside(ValueId list) const {
  if (!list.valid() || view_.constant(list) != nullptr) return true;
  const NodeId producer = view_.graph().value(list).producer;
  return producer.valid() && vanishes(producer);
}

bool DimChains::may_vanish(NodeId id) const {
  const Node& node = view_.graph().node(id);
  if (!std::ranges::all_of(dim_inputs(node), [&](ValueId input) { return is_inside(input); }))
    return false;
  return std::ranges::all_of(node.outputs, [&](ValueId output) {
    if (!output.valid()) return true;
    const Value& value = view_.graph().value(output);
    return !value.is_output && std::ranges::all_of(value.consumers, [&](NodeId consumer) {
      if (is_folded(view_, consumer)) return is_unread(consumer, kMostFolded);
      const std::size_t reader = scope_.place(consumer);
      if (reader == scope_.size() || level_[reader] != level_[scope_.place(id)]) return false;
      if (vanishes_[reader]) return true;
      return reads_[reader] && (takes(consumer) || view_.graph().node(consumer).input(0) != output);
    });
  });
}

/// Whether all that the reader's lists come from vanishes: then the partition sees each tensor that
/// it wants sizes of, because a Shape reads it there.
bool DimChains::is_served(NodeId reader) const {
  return std::ranges::all_of(lists_of(reader), [&](ValueId list) {
    // A taker reads nothing in a run: what is there before all that is taken may stay.
    return is_inside(list) || (takes(reader) && !follows(view_.graph().value(list).producer));
  });
}

/// The node stays in the graph; what that may break is looked at again.
void DimChains::keep(NodeId id, std::vector<NodeId>& open) {
  const Node& node = view_.graph().node(id);
  vanishes_[scope_.place(id)] = false;
  for (const ValueId input : dim_inputs(node))
    if (input.valid() && view_.graph().value(input).producer.valid())
      open.push_back(view_.graph().value(input).producer);
  for (const ValueId output : node.outputs)
    if (output.valid())
      std::ranges::copy(view_.graph().value(output).consumers, std::back_inserter(open));
}

/// Takes back what does not hold until all does.
void DimChains::settle() {
  std::vector<NodeId> open;
  for (std::size_t i = 0; i < vanishes_.size(); ++i)
    if (vanishes_[i] || reads_[i]) open.push_back(scope_.at(i));
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    if (vanishes(id) && !may_vanish(id)) {
      keep(id, open);
    } else if (reads(id) && !is_served(id)) {
      reads_[scope_.place(id)] = false;
      for (const ValueId list : lists_of(id))
        if (const NodeId producer = view_.graph().value(list).producer; producer.valid())
          open.push_back(producer);
    }
  }
}

Refusal DimChains::refusal(NodeId reader) const {
  if (reads(reader)) return std::nullopt;
  return "the sizes that it needs are also read outside the partition";
}

void DimChains::make_groups() {
  std::vector<std::uint32_t> parent(vanishes_.size());
  std::iota(parent.begin(), parent.end(), 0U);
  const auto find = [&](std::uint32_t n) {
    while (parent[n] != n) n = parent[n] = parent[parent[n]];
    return n;
  };
  for (std::uint32_t i = 0; i < vanishes_.size(); ++i) {
    if (!vanishes_[i]) continue;
    for (const ValueId output : view_.graph().node(scope_.at(i)).outputs)
      if (output.valid())  // those that read it vanish or are readers, so they are in the scope
        for (const NodeId consumer : view_.graph().value(output).consumers)
          if (!is_folded(view_, consumer))
            parent[find(i)] = find(static_cast<std::uint32_t>(scope_.place(consumer)));
  }
  std::vector<bool> joined(vanishes_.size(), false);
  for (const auto* all : {&given_.together, &given_.joined})
    for (const std::vector<NodeId>& nodes : *all)
      for (const NodeId id : nodes) {
        const std::size_t at = scope_.place(id);
        parent[find(static_cast<std::uint32_t>(at))] =
            find(static_cast<std::uint32_t>(scope_.place(nodes.front())));
        joined[at] = true;
      }
  std::map<std::uint32_t, std::vector<NodeId>> members;
  for (std::uint32_t i = 0; i < vanishes_.size(); ++i)
    if (vanishes_[i] || reads_[i] || joined[i]) members[find(i)].push_back(scope_.at(i));
  for (auto& [root, nodes] : members) groups_.push_back(std::move(nodes));
}

bool reads_dims(const GraphView& view, const Node& node) {
  return !dim_list_inputs(view, node).empty();
}

}  // namespace ctxgen::onednn
