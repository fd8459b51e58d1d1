#pragma once

#include <optional>
#include <vector>

#include "../node_view.h"
#include "made_bias.h"

namespace ctxgen::onednn {

/// A mask that hides keys after their query, which places and sizes prove, and perhaps others.
struct CausalMask {
  /// The other keys that are not hidden, alike for all queries: [batch or 1, 1, 1, keys], or any bool that is alike where
  /// `hidden` has no number; 0 hides. May be absent.
  ValueId visible;
  std::optional<float> hidden;  // what is added for a key that either hides; none: -infinity
  std::vector<NodeId>
      nodes;  // that make the mask of what stays; nothing else reads what is between
  std::vector<NodeId> takers;  // of these, those that read lists made of sizes
};

/// Of a mask of booleans, where false hides as -infinity does, or one of 0 and a number that hides.
[[nodiscard]] std::optional<CausalMask> find_causal_mask(const GraphView& view, ValueId mask,
                                                         const ChainSizes& sizes,
                                                         const BiasSizes& of);

}  // namespace ctxgen::onednn
