#pragma once

#include <string>

#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Why a computed tensor is not the stored one of ONNX's backend tests; nothing if it is. Floats
/// are compared within the tolerance of those tests, everything else exactly.
[[nodiscard]] std::string difference(const Tensor& actual, const Tensor& expected);

}  // namespace ctxgen
