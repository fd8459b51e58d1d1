#pragma once

#include <filesystem>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/write_model.h"

namespace ctxgen {

/// Asks options.initializer_location, if there is one, where each initializer goes that a model
/// keeps, and enters the answers. `output_folder`: of the context model; nullptr: not known.
///
/// Errors  those of the callback; INVALID_ARGUMENT: a place that ONNX does not allow, "keep" for an
///         initializer without a place of its own or with one outside of `output_folder`.
[[nodiscard]] Status locate_initializers(const Model& model, const CompileOptions& options,
                                         const std::filesystem::path* output_folder,
                                         ModelRewrite& rewrite);

}  // namespace ctxgen
