#pragma once

#include <string>
#include <string_view>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/base/tensor.h"

namespace ctxgen {

/// Why a computed tensor is not the stored one of ONNX's backend tests; nothing if it is. Floats
/// are compared within the tolerance of those tests, everything else exactly.
[[nodiscard]] std::string difference(const Tensor& actual, const Tensor& expected);

/// The same for values of any kind, item by item.
[[nodiscard]] std::string difference(const RuntimeValue& actual, const RuntimeValue& expected);

/// The same for what random operators drew: types and shapes only.
[[nodiscard]] std::string difference_of_form(const Tensor& actual, const Tensor& expected);

/// Whether the operator's outputs differ from run to run.
[[nodiscard]] bool is_random_operator(std::string_view op_type);

}  // namespace ctxgen
