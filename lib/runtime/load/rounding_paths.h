#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/runtime/numerics.h"

namespace ctxgen {

/// The program behind an EPContext node, and which of the node's values are whose.
struct PartitionProgram {
  const Graph* graph = nullptr;  // the main graph or a body
  NodeId node;
  std::shared_ptr<const Program> program;
  const ProgramLoader* loader = nullptr;
  std::vector<ValueId> inputs;   // one per Program::inputs
  std::vector<ValueId> outputs;  // one per Program::outputs, but for inner values at the end
};

/// Follows every path through a model, through its partitions' programs and the bodies of its control
/// flow.
///
/// Cost  linear in nodes, ops and values. What a loop's body does counts kUnknownTerms times where
///       the model does not say how often it runs.
[[nodiscard]] NumericPaths follow_roundings(const Model& model,
                                            std::span<const PartitionProgram> partitions);

}  // namespace ctxgen
