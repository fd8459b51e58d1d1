#pragma once

#include "plan/aligned_bytes.h"
#include "plan/builder.h"

namespace ctxgen::onednn {

/// Copies `src` into the layout `to`. Errors  BACKEND_ERROR, RESOURCE_LIMIT.
[[nodiscard]] Result<AlignedBytes> reorder_weight(const std::byte* src,
                                                  const dnnl::memory::desc& from,
                                                  const dnnl::memory::desc& to);

}  // namespace ctxgen::onednn
