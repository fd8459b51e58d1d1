#pragma once

#include "ctxgen/base/runtime_value.h"

#include "ctxgen_runtime.h"

namespace ctxgen::capi {

/// A tensor over the caller's bytes.
/// Errors  INVALID_ARGUMENT (NULL, unknown type, strings, rank, dims or size that do not fit).
[[nodiscard]] Result<Tensor> borrow_tensor(const ctxgen_tensor* tensor);

/// Fills `out`, whose pointers are good while `tensor` stays where it is.
/// Errors  INVALID_ARGUMENT (struct_size).
[[nodiscard]] Status describe_tensor(const Tensor& tensor, ctxgen_tensor* out);

}  // namespace ctxgen::capi

struct ctxgen_value {
  ctxgen::RuntimeValue value;
};
