#pragma once

#include <span>
#include <string>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen::onednn {

/// What it costs that the target has no products of 8-bit integers, in bytes; nothing if it has, or if nothing here
/// would use them.
[[nodiscard]] std::vector<std::string> target_costs(const GraphView& view,
                                                    std::span<const Partition> partitions);

}  // namespace ctxgen::onednn
