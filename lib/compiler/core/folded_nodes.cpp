#include "core/folded_nodes.h"

#include <algorithm>
#include <cstdint>

namespace ctxgen {
namespace {

constexpr int kStays = -1;     // read by a node that is in no partition, or an output
constexpr int kAnywhere = -2;  // nothing reads it, or only such nodes do

/// Where a value is read, of what was known and one reader more.
int joined(int home, int reader) {
  if (reader == kAnywhere || home == reader) return home;
  return home == kAnywhere ? reader : kStays;
}

/// Where all that a folded node gives is read.
int readers_of(const Graph& graph, const Node& node, const std::vector<int>& homes) {
  int home = kAnywhere;
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    if (graph.value(output).is_output) return kStays;
    for (const NodeId reader : graph.value(output).consumers)
      home = joined(home, homes[reader.index]);
  }
  return home;
}

/// The last partition that such a node reads from, itself or by another folded node.
int sources_of(const Graph& graph, const Node& node, const std::vector<int>& homes) {
  int home = kStays;
  for (const ValueId input : node.inputs)
    if (input.valid() && graph.value(input).producer.valid())
      home = std::max(home, homes[graph.value(input).producer.index]);
  return home;
}

/// By node: its partition of the first provider, or that which takes it because it is folded.
std::vector<int> homes_of(const Graph& graph, const Assignment& assignment) {
  std::vector<int> homes(graph.node_count(), kStays);
  for (auto n = static_cast<std::uint32_t>(graph.node_count()); n-- > 0;) {
    const NodeAssignment& one = assignment.nodes[n];
    if (one.partition >= 0)
      homes[n] = one.partition;
    else if (one.folded)
      homes[n] = readers_of(graph, graph.node(NodeId{n}), homes);
  }
  for (std::uint32_t n = 0; n < homes.size(); ++n)
    if (homes[n] == kAnywhere) homes[n] = sources_of(graph, graph.node(NodeId{n}), homes);
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
  std::vector<int> takers(graph.node_count(), kStays);
  for (std::size_t p = 0; p < taken.size(); ++p)
    for (const NodeId node : taken[p]) takers[node.index] = static_cast<int>(p);
  auto& partitions = assignment.partitions.front();
  for (std::size_t p = 0; p < partitions.size(); ++p) {
    Partition& partition = partitions[p];
    const auto leaves = [&](ValueId output) {
      const Value& value = graph.value(output);
      bool by_taken = false;
      for (const NodeId reader : value.consumers) {
        const int home = assignment.nodes[reader.index].partition;
        if (home != kStays && home != static_cast<int>(p)) return true;
        if (home == kStays && takers[reader.index] == kStays) return true;
        by_taken = by_taken || (home == kStays && takers[reader.index] != static_cast<int>(p));
      }
      if (value.is_output) return true;
      // What another partition takes in to read it does not read it any more.
      return !by_taken && std::ranges::contains(partition.outputs, output);
    };
    std::vector<ValueId> outputs;
    for (const NodeId node : partition.nodes)
      for (const ValueId output : graph.node(node).outputs)
        if (output.valid() && leaves(output)) outputs.push_back(output);
    partition.outputs = std::move(outputs);
  }
}

}  // namespace ctxgen
