#pragma once

#include <onnx/onnx_pb.h>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// The onnx package's shape inference, in place.
[[nodiscard]] Status run_inference(onnx::ModelProto& model);

}  // namespace ctxgen
