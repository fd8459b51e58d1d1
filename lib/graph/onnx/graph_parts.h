#pragma once

#include <cstddef>
#include <vector>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Nodes of a graph that follow each other, and what belongs to them.
struct GraphPart {
  std::vector<NodeId> nodes;       // those that skeletons have
  std::vector<ValueId> inputs;     // values that they read and do not make, which are not constants
  std::vector<ValueId> constants;  // that they read
  std::vector<ValueId> outputs;    // values that they make and that the graph gives out
  bool whole = true;               // the graph has no other part
};

/// Cuts the main graph into parts of about `most_nodes` nodes; one part, without lists of values, where
/// it has no more. A cut is not made between a size and what is computed from it, if there is another
/// place within a quarter of a part: inference follows sizes within a part only.
[[nodiscard]] std::vector<GraphPart> parts_of(const Graph& graph, std::size_t most_nodes);

}  // namespace ctxgen
