#pragma once

#include <string>

#include <onnx/defs/schema.h>

namespace ctxgen {

/// The schema that shape inference goes by: the onnx package's, or for operators of com.microsoft, and
/// those of ONNX for which the package has no shape function, one that has a shape function and nothing
/// else. nullptr where there is none.
[[nodiscard]] const onnx::OpSchema* inference_schema(const std::string& op_type, int version,
                                                     const std::string& domain);

}  // namespace ctxgen
