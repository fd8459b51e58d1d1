#pragma once

#include <string>
#include <vector>

#include "ctxgen/base/opened_file.h"
#include "ctxgen/graph/graph.h"

#include "ort_edge.h"

namespace ctxgen::plugin {

/// A graph of ONNX Runtime's as compilers see it.
struct SessionGraph {
  Model model;
  std::vector<const OrtNode*> nodes;  // by NodeId
  std::vector<OpenedFile> files;      // of which initializers are parts
};

/// Reads the main graph of a model: nodes in the order of the file where that is topological, types
/// with symbolic dims as ONNX Runtime inferred them. A node whose attributes cannot be read is there
/// under a domain that no provider knows; bodies of nodes are empty.
///
/// Lifetime  large initializers are ONNX Runtime's memory, or mapped here where they are in files: all is valid during the
///           callback that gave the graph.
/// Errors    RESOURCE_LIMIT, UNSUPPORTED: an initializer that cannot be read.
[[nodiscard]] Result<SessionGraph> read_session_graph(const OrtApis& ort, const OrtGraph& graph);

/// Whether the graph is a body of a node.
[[nodiscard]] Result<bool> is_body(const OrtApis& ort, const OrtGraph& graph);

}  // namespace ctxgen::plugin
