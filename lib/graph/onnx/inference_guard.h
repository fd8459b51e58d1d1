#pragma once

#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Whether the onnx package may infer the node's outputs: it has a schema of the version that the
/// node means, and its attributes are none on which its shape function crashes or runs for hours.
/// What depends on the types of inputs is in inference_registry.h.
[[nodiscard]] bool may_infer(const Model& model, const Node& node);

/// Whether the node means the operator version that the model imports: others come from functions.
[[nodiscard]] bool means_model_version(const Model& model, const Node& node);

}  // namespace ctxgen
