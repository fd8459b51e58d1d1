#pragma once

#include <vector>

#include "ctxgen/graph/graph.h"

#include "ort_edge.h"

namespace ctxgen::plugin {

/// All attributes of a node; values are copied. A graph is an empty one: bodies are not compiled.
/// Errors  UNSUPPORTED for one that ONNX Runtime's API does not give (sparse tensors, types).
[[nodiscard]] Result<std::vector<Attribute>> read_attributes(const OrtApis& ort,
                                                             const OrtNode& node);

/// A tensor of ONNX Runtime's. `borrow`: with its memory, which has to outlive the result; strings are
/// always copied.
/// Errors  RESOURCE_LIMIT, UNSUPPORTED: a type, rank or size that is not taken here.
[[nodiscard]] Result<Tensor> read_tensor(const OrtApis& ort, const OrtValue& value, bool borrow);

/// An enumerator of ONNX Runtime's, whose numbers are ONNX's.
/// Errors  UNSUPPORTED: not known here.
[[nodiscard]] Result<DataType> read_type(ONNXTensorElementDataType type);

}  // namespace ctxgen::plugin
