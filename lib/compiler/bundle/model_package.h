#pragma once

#include "ctxgen/base/atomic_folder.h"
#include "ctxgen/compiler/bundle.h"

#include "bundle/bundle_content.h"

namespace ctxgen {

/// Fills `folder` with a model package of ONNX Runtime (schema 1.0): models of one name are variants of one
/// component. Enters what came into it in `report`.
[[nodiscard]] Status write_model_package(const BundleContent& content, const BundleOptions& options,
                                         AtomicFolder& folder, BundleReport& report);

}  // namespace ctxgen
