#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// Sorts the NodeProtos of a graph or function so that each comes after those that make what it reads.
/// Returns whether that changed the order.
///
/// Order   nodes that are in order stay; a node that comes too late moves to before its first reader, with
///         what it needs itself. What the bodies of a node read and do not define counts as read by it.
/// Cost    linear in the text of the nodes, times the depth of their bodies.
/// Errors  INVALID_GRAPH for a cycle, naming its nodes, and for malformed messages; RESOURCE_LIMIT for
///         more than `most_names` names, and for bodies nested more than kMaxSubgraphDepth deep.
/// Names that no node makes are left to the reader; of two nodes that make one name, the first counts.
[[nodiscard]] Result<bool> sort_nodes(std::vector<std::span<const std::byte>>& nodes,
                                      std::uint64_t most_names);

}  // namespace ctxgen
