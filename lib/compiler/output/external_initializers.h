#pragma once

#include <span>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/onnx_lite/write_model.h"
#include "ctxgen/weights/external_file.h"

namespace ctxgen {

/// Contradictions of --external-initializers that need no look at a model.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status check_external_options(const CompileOptions& options);

/// Moves the initializers that a model keeps, of external_threshold bytes and more, to the file.
[[nodiscard]] Status move_initializers(const Model& model, const CompileOptions& options,
                                       ModelRewrite& rewrite, ExternalFileBuilder& file);

/// Has models that keep initializers in the file say which one it is. Requires  all are moved.
void name_external_file(const CompileOptions& options, const ExternalFileBuilder& file,
                        std::span<ModelRewrite> rewrites);

}  // namespace ctxgen
