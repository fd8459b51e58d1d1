#pragma once

#include <cstddef>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// What optimize_graph() did to the main graph.
struct OptimizedGraph {
  std::size_t removed_nodes = 0;
  std::vector<NodeId> rewired;  // nodes that read other values now, ascending
};

/// Simplifies the main graph itself, so that nodes which stay in the model gain from it too. Values
/// keep their names; what bodies of nodes and expanded functions read is left alone.
///
///   kBasic     constants that were folded become initializers; nodes that change nothing (Identity,
///              Dropout at inference, Cast to the same type, Reshape to the same shape, ...), nodes whose
///              results that nothing reads, and initializers that nothing reads any more, are removed.
///   kExtended  also, of nodes that compute the same from the same values one is kept.
///   kAll       the same as kExtended: layouts are chosen inside partitions.
///
/// Requires  types and folded values are up to date.
[[nodiscard]] OptimizedGraph optimize_graph(Model& model, GraphOptimization level);

}  // namespace ctxgen
