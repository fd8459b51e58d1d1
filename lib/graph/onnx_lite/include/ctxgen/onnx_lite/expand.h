#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Gives the serialised FunctionProto that a node stands for, or nothing to leave the node alone.
/// Its attribute defaults must be filled in, its opset imports name the versions of its nodes.
using FunctionBody =
    std::function<Result<std::optional<std::vector<std::byte>>>(const Graph&, const Node&)>;

/// Replaces nodes of `graph` (not of its subgraphs) by the bodies of the functions that they
/// stand for, one level deep. New values get names that are unique in the graph; their types are
/// not known yet. New nodes have no source, and Node::call says which node they came from.
/// Returns how many nodes were replaced.
///
/// Errors  those of read_model for the bodies; those of `body_of`. `graph` is then not usable.
[[nodiscard]] Result<std::size_t> expand_nodes(Model& model, Graph& graph,
                                               const FunctionBody& body_of);

}  // namespace ctxgen
