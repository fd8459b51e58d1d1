#pragma once

#include <vector>

#include "ctxgen/ctxfile/program.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// A node's values in the order of a program's inputs and outputs.
struct BoundSignature {
  std::vector<ValueId> inputs;   // one per Program::inputs
  std::vector<ValueId> outputs;  // one per Program::outputs
};

/// Matches an EPContext node's inputs and outputs with its program's by name. An output that the node leaves out (an empty
/// name) is invalid in the result.
///
/// Errors  kCorruptContext naming the value: missing, unknown, twice, or of another type or shape
///         than the program was made for.
[[nodiscard]] Result<BoundSignature> bind_signature(const Graph& graph, const Node& node,
                                                    const Program& program);

}  // namespace ctxgen
