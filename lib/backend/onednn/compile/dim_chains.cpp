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
                     const std::vector<bool>& allowed, const std::vector<NodeId>& readers,
                     const std::vector<bool>& taken,
                     const std::vector<std::vector<NodeId>>& together)
    : view_(view),
      scope_(scope),
      allowed_(allowed),
      taken_(taken),
      vanishes_(scope.size()),
      reads_(scope.size()),
      level_(scope.size(), 0),
      readers_(readers) {
  for (const NodeId reader : readers_) reads_[scope_.place(reader)] = true;
  for (const NodeId reader : readers_) collect(reader);
  find_levels(taken, together);
  settle();
  make_groups(together);
}

/// Nodes of one level have no node of others on a way between them. What is taken together is of one level.
void DimChains::find_levels(const std::vector<bool>& taken,
                            const std::vector<std::vector<NodeId>>& together) {
  const Graph& graph = view_.graph();
  const auto ours = [&](std::size_t n) { return taken[n] || vanishes_[n]; };
  for (bool changed = true; changed;) {
    for (std::size_t n = 0; n < level_.size(); ++n)
      for (const ValueId output : graph.node(scope_.at(n)).outputs)
        if (output.valid() && view_.constant(output) == nullptr)
          for (const NodeId consumer : graph.value(output).consumers) {
            const std::size_t to = scope_.place(consumer);
            if (to < level_.size())
              level_[to] = std::max(level_[to], level_[n] + (ours(n) && !ours(to) ? 1 : 0));
          }
    changed = false;
    for (const std::vector<NodeId>& nodes : together) {
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
  const std::vector<std::size_t> inputs = dim_list_inputs(view_, reading);
  if (!read_dim_lists(NodeView(view_, reading), inputs)) return;
  std::vector<ValueId> open;
  for (const std::size_t input : inputs) open.push_back(reading.input(input));
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
      return reads_[reader] && view_.graph().node(consumer).input(0) != output;
    });
  });
}

/// Whether all that the reader's lists come from vanishes: then the partition sees each tensor that
/// it wants sizes of, because a Shape reads it there.
bool DimChains::is_served(NodeId reader) const {
  const Node& node = view_.graph().node(reader);
  return std::ranges::all_of(dim_list_inputs(view_, node),
                             [&](std::size_t input) { return is_inside(node.input(input)); });
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
      const Node& reader = view_.graph().node(id);
      for (const std::size_t input : dim_list_inputs(view_, reader))
        if (const NodeId producer = view_.graph().value(reader.input(input)).producer;
            producer.valid())
          open.push_back(producer);
    }
  }
}

Refusal DimChains::refusal(NodeId reader) const {
  if (reads(reader)) return std::nullopt;
  return "the sizes that it needs are also read outside the partition";
}

void DimChains::make_groups(const std::vector<std::vector<NodeId>>& together) {
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
  for (const std::vector<NodeId>& nodes : together)
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
