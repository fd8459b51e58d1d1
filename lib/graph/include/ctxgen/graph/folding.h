#pragma once

#include <algorithm>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Whether every output that the node has was computed at compile time. True of a node without
/// outputs.
[[nodiscard]] inline bool all_outputs_folded(const Graph& graph, const Node& node) {
  return std::ranges::all_of(node.outputs, [&graph](ValueId output) {
    return !output.valid() || graph.value(output).folded.has_value();
  });
}

}  // namespace ctxgen
