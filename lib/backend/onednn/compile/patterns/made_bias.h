#pragma once

#include <optional>
#include <vector>

#include "../node_view.h"
#include "chain_sizes.h"

namespace ctxgen::onednn {

/// A bias of attention that is a mask and what the op makes itself: nothing, where exporters add zeros, or what T5 adds by
/// the distance of a key from its query.
struct MadeBias {
  ValueId mask;
  std::vector<float>
      by_distance;  // [heads, count], of a key 0, 1, 2... places before its query; or empty
  std::int64_t count = 0;
  std::vector<NodeId> nodes;   // that make it, without those of the mask; nothing else reads them
  std::vector<NodeId> takers;  // of these, those that read numbers or lists made of sizes
};

/// Of the attention that reads the bias.
struct BiasSizes {
  std::int64_t heads = 0;
  SizeSum batch, queries, past, keys;
};

[[nodiscard]] std::optional<MadeBias> find_made_bias(const GraphView& view, ValueId bias,
                                                     const ChainSizes& sizes, const BiasSizes& of);

}  // namespace ctxgen::onednn
