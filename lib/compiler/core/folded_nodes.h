#pragma once

#include <vector>

#include "ctxgen/graph/graph.h"
#include "ctxgen/partition/partitioner.h"

namespace ctxgen {

/// Nodes that were computed at compile time, by the partition that alone reads what they give (or other such nodes of it), or
/// that they read where nothing reads them: they become part of it, where all other nodes stay in the graph.
using FoldedNodes = std::vector<std::vector<NodeId>>;

[[nodiscard]] FoldedNodes folded_nodes_of(const Graph& graph, const Assignment& assignment);

/// What folded nodes that stay read of a partition becomes an output of it; what only those read that another one takes does
/// not leave it.
void show_to_folded_nodes(const Graph& graph, const FoldedNodes& taken, Assignment& assignment);

}  // namespace ctxgen
