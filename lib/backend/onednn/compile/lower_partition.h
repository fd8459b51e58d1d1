#pragma once

#include "ctxgen/partition/provider.h"

#include "lowered.h"

namespace ctxgen::onednn {

/// Lowers the nodes of a partition one by one (or pattern by pattern), without fusing anything.
///
/// Errors    INTERNAL if a node is not one that capabilities() claims; IO_ERROR of `spill`.
/// Lifetime  weights share the bytes of the model's constants; those that are made are kept by
///           `spill` (null: in memory).
[[nodiscard]] Result<Lowered> lower_partition(const GraphView& view, const Partition& partition,
                                              SpillFile* spill = nullptr);

}  // namespace ctxgen::onednn
