#pragma once

#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// Whether `options` ask for a part of the model.
[[nodiscard]] bool asks_for_part(const CompileOptions& options);

/// The part of a model that computes CompileOptions::output_names from input_names, as the bytes of a model of its own; weights are
/// inline, what the part does not need is gone. Without input_names it takes those inputs of the model that it needs; without
/// output_names it gives the model's outputs.
///
/// In      model: as it was read, with external data; its types are inferred, which changes it.
/// Errors  INVALID_ARGUMENT: a name that the model does not have or has twice, a constant as an input, an output that needs an input
///         which is not named, an input that no output needs, a node that gives a named input and is needed for something else,
///         a value at the cut whose type is not known. RESOURCE_LIMIT: a part of more than 2 GiB.
[[nodiscard]] Result<Blob> cut_model(Model& model, const ModelInput& input,
                                     const CompileOptions& options);

}  // namespace ctxgen
