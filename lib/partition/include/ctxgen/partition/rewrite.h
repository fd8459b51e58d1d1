#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/onnx_lite/write_model.h"
#include "ctxgen/partition/partitioner.h"

namespace ctxgen {

/// One partition as it goes into the context model.
struct CompiledNode {
  const Partition* partition = nullptr;
  EpContextAttributes attributes;
  Blob payload;  // embed mode, first node only
};

/// Plans the context model: each partition becomes one EPContext node at its place in topological
/// order; nodes and initializers that only partitions used are gone; the rest stays as it was.
///
/// Rules  functions are kept while a call of one is written; an expanded call of which nothing was
///        compiled is written as the call; IR < 4: the graph input of a removed initializer goes
///        with it; IR >= 4 and `freeze`: inputs that are initializers go.
[[nodiscard]] ModelRewrite plan_rewrite(
    const Model& model, const Assignment& assignment, std::span<const CompiledNode> compiled,
    std::span<const std::pair<std::string, std::string>> metadata, bool freeze_initializers,
    std::vector<BodyRewrite> bodies = {});

/// The same for a body of a node. `bodies`: those of nodes in this graph that change.
[[nodiscard]] GraphRewrite plan_graph_rewrite(const Graph& graph, const Assignment& assignment,
                                              std::span<const CompiledNode> compiled,
                                              std::vector<BodyRewrite> bodies,
                                              bool freeze_initializers);

}  // namespace ctxgen
