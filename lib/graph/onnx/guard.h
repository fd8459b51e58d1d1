#pragma once

#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// Calls into the onnx package, whose exceptions end here: ValidationError, InferenceError,
/// assert_error and what its containers throw. All of them blame the model.
template <class Function>
auto guarded(std::string_view what, Function&& function) -> decltype(function()) {
  try {
    return std::forward<Function>(function)();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kResourceLimit, "{}: out of memory", what);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInvalidGraph, "{}: {}", what, error.what());
  }
}

}  // namespace ctxgen
