#pragma once

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Whether the onnx package may infer the node's outputs: it has a schema of the version that the
/// node means, and its shape function does not crash or run for hours on it (onnx 1.20 has several
/// that trust the model; found by random models, tests/unit/onnx/hostile_nodes_test.cpp).
///
/// What is unknown counts as unsafe where the function needs it; a later run may know more.
[[nodiscard]] bool may_infer(const Model& model, const Graph& graph, const Node& node);

/// Whether the node means the operator version that the model imports: others come from functions.
[[nodiscard]] bool means_model_version(const Model& model, const Node& node);

}  // namespace ctxgen
