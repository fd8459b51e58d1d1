#include "core/folded_nodes.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace ctxgen {
namespace {

/// No partition, and none that could be one.
constexpr int kStays = -1;

/// By node: its partition of the first provider, or that which takes it because it is folded.
std::vector<int> homes_of(const Graph& graph, const Assignment& assignment) {
  std::vector<int> homes(graph.node_count(), kStays);
  for (auto n = static_cast<std::uint32_t>(graph.node_count()); n-- > 0;) {
    const NodeAssignment& one = assignment.nodes[n];
    if (one.partition >= 0) homes[n] = one.partition;
    if (one.partition >= 0 || !one.folded) continue;
    std::optional<int> home;
    for (const ValueId output : graph.node(NodeId{n}).outputs) {
      if (!output.valid()) continue;
      const Value& value = graph.value(output);
      if (value.is_output) home = kStays;
      for (const NodeId reader : value.consumers)
        home = !home || *home == homes[reader.index] ? homes[reader.index] : kStays;
    }
    homes[n] = home.value_or(kStays);
  }
  return homes;
}

}  // namespace

FoldedNodes folded_nodes_of(const Graph& graph, const Assignment& assignment) {
  FoldedNodes taken(assignment.partitions.front().size());
  const std::vector<int> homes = homes_of(graph, assignment);
  for (std::uint32_t n = 0; n < homes.size(); ++n)
    if (homes[n] >= 0 && assignment.nodes[n].partition < 0)
      taken[static_cast<std::size_t>(homes[n])].push_back(NodeId{n});
  return taken;
}

void show_to_folded_nodes(const Graph& graph, const FoldedNodes& taken, Assignment& assignment) {
  std::vector<bool> gone(graph.node_count(), false);
  for (const auto& nodes : taken)
    for (const NodeId node : nodes) gone[node.index] = true;
  const auto stays = [&](NodeId node) {
    const NodeAssignment& one = assignment.nodes[node.index];
    return one.folded && one.partition < 0 && !gone[node.index];
  };
  for (Partition& partition : assignment.partitions.front()) {
    std::vector<ValueId> outputs;
    for (const NodeId node : partition.nodes)
      for (const ValueId output : graph.node(node).outputs) {
        if (!output.valid()) continue;
        if (std::ranges::contains(partition.outputs, output) ||
            std::ranges::any_of(graph.value(output).consumers, stays))
          outputs.push_back(output);
      }
    partition.outputs = std::move(outputs);
  }
}

}  // namespace ctxgen
