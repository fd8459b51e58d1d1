#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/ctxfile/resolve.h"

#include "ort_edge.h"

namespace ctxgen::plugin {

/// Every node of a graph; valid during the callback that gave the graph.
[[nodiscard]] Result<std::vector<const OrtNode*>> nodes_of(const OrtApis& ort,
                                                           const OrtGraph& graph);

/// Whether the node is an EPContext node of the EP `name`. No if it cannot be told.
[[nodiscard]] bool is_ours(const OrtApis& ort, std::string_view name, const OrtNode& node);

/// The attributes of an EPContext node, absent ones with the schema's defaults; a payload is copied.
/// Errors  INVALID_GRAPH (an attribute of another kind or with another value).
[[nodiscard]] Result<ContextNode> read_context_node(const OrtApis& ort, const OrtNode& node);

/// Names of values; "" for an absent one.
[[nodiscard]] Result<std::vector<std::string>> names_of(
    const OrtApis& ort, const std::vector<const OrtValueInfo*>& values);

/// Names of a node's inputs or outputs; "" for an absent one.
[[nodiscard]] Result<std::vector<std::string>> input_names(const OrtApis& ort, const OrtNode& node);
[[nodiscard]] Result<std::vector<std::string>> output_names(const OrtApis& ort,
                                                            const OrtNode& node);

/// The path that the model was loaded from, empty for one from memory.
[[nodiscard]] Result<std::filesystem::path> model_path(const OrtApis& ort, const OrtGraph& graph);

}  // namespace ctxgen::plugin
