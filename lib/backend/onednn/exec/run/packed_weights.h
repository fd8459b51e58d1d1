#pragma once

#include <vector>

#include "ctxgen/ctxfile/packed_at_load.h"

namespace ctxgen::onednn {

/// PredictsPacking::packed_at_load: plans as a load does, and compares what the plans want with what
/// is stored.
[[nodiscard]] Result<std::vector<PackedAtLoad>> packed_at_load(const Program& program, int threads);

}  // namespace ctxgen::onednn
