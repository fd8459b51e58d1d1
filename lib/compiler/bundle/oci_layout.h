#pragma once

#include "ctxgen/base/atomic_folder.h"
#include "ctxgen/compiler/bundle.h"

#include "bundle/bundle_content.h"

namespace ctxgen {

/// Fills `folder` with an OCI image layout (image-spec 1.1) of one manifest with a layer per file, and enters what
/// came into it in `report`.
[[nodiscard]] Status write_oci_layout(const BundleContent& content, const BundleOptions& options,
                                      AtomicFolder& folder, BundleReport& report);

}  // namespace ctxgen
