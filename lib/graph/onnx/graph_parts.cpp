#include "graph_parts.h"

#include <algorithm>

#include <onnx/defs/schema.h>

#include "skeleton.h"

namespace ctxgen {
namespace {

/// For each node, how many values that hold sizes are made before or by it and read after it.
std::vector<std::uint32_t> open_sizes(const Graph& graph) {
  std::vector<bool> is_size(graph.value_count(), false);
  std::vector<std::int32_t> change(graph.node_count() + 1, 0);
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    const bool begins = node.domain.empty() && (node.op_type == "Shape" || node.op_type == "Size");
    const bool reads = std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id.valid() && is_size[id.index]; });
    if (!begins && !reads) continue;
    const onnx::OpSchema* schema = onnx::OpSchemaRegistry::Schema(
        node.op_type.str(), static_cast<int>(node.opset), node.domain.str());
    if (schema == nullptr || !schema->has_data_propagation_function()) continue;
    for (const ValueId id : node.outputs) {
      if (!id.valid() || graph.value(id).consumers.empty()) continue;
      is_size[id.index] = true;
      ++change[n];
      --change[graph.value(id).consumers.back().index];
    }
  }
  std::vector<std::uint32_t> open(graph.node_count(), 0);
  std::int32_t count = 0;
  for (std::size_t n = 0; n < open.size(); ++n) {
    count += change[n];
    open[n] = static_cast<std::uint32_t>(std::max(count, 0));
  }
  return open;
}

/// Finds what the nodes of a part read and give.
class PartReader {
 public:
  explicit PartReader(const Graph& graph) : graph_(graph), part_of_(graph.value_count(), 0) {}

  void fill(GraphPart& part) {
    ++number_;
    for (const NodeId id : part.nodes) {
      const Node& node = graph_.node(id);
      for (const ValueId input : node.inputs) read(input, part);
      for (const ValueId input : node.captures) read(input, part);
      for (const ValueId output : node.outputs) {
        if (!output.valid()) continue;
        part_of_[output.index] = number_;
        if (graph_.value(output).is_output) part.outputs.push_back(output);
      }
    }
  }

 private:
  void read(ValueId id, GraphPart& part) {
    if (!id.valid() || part_of_[id.index] == number_) return;
    part_of_[id.index] = number_;
    (graph_.value(id).constant() != nullptr ? part.constants : part.inputs).push_back(id);
  }

  const Graph& graph_;
  std::vector<std::uint32_t> part_of_;  // by value: the last part that made or read it
  std::uint32_t number_ = 0;
};

}  // namespace

std::vector<GraphPart> parts_of(const Graph& graph, std::size_t most_nodes) {
  std::vector<GraphPart> parts(1);
  std::vector<NodeId> nodes = skeleton_nodes(graph);
  if (nodes.size() <= most_nodes) {
    parts.front().nodes = std::move(nodes);
    return parts;
  }
  const std::vector<std::uint32_t> open = open_sizes(graph);
  for (const NodeId id : nodes) {
    const std::size_t count = parts.back().nodes.size();
    const bool late = count >= most_nodes + most_nodes / 4;
    if (count >= most_nodes && (late || open[parts.back().nodes.back().index] == 0))
      parts.emplace_back();
    parts.back().nodes.push_back(id);
  }
  PartReader reader(graph);
  for (GraphPart& part : parts) {
    part.whole = false;
    reader.fill(part);
  }
  return parts;
}

}  // namespace ctxgen
