#pragma once

#include <cstddef>

#include "ctxgen/graph/graph.h"

namespace ctxgen::plugin {

/// Whether an output of a node is a scalar, as far as its operator and the types of its inputs say: ONNX Runtime 1.23 gives
/// rank 0 to scalars and to values of unknown rank. False where that cannot be told.
[[nodiscard]] bool is_scalar(const Graph& graph, const Node& node, std::size_t output);

}  // namespace ctxgen::plugin
