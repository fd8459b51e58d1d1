#pragma once

#include <span>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/onnx_lite/content_state.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

/// check_content() for a load: as `when` says; auto: if the model without embedded context binaries and its
/// external data are below 16 MiB together. A change is logged.
/// Errors  those of check_content(); kCorruptContext: damaged.
[[nodiscard]] Status check_content_at_load(const Model& model, std::span<const FileRead> files,
                                           VerifyBlobs when);

}  // namespace ctxgen
