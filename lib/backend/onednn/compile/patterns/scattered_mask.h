#pragma once

#include <optional>

#include "../node_view.h"
#include "causal_mask.h"
#include "made_bias.h"

namespace ctxgen::onednn {

/// Of a mask as transformers 4 makes it: the lowest float where the place of a key is after that of its query; its part of
/// as many keys as the padding has gets that number, too, where the padding is 0, and is put back by ScatterND. The mask may
/// have more keys than the attention, which has to cut it.
[[nodiscard]] std::optional<CausalMask> find_scattered_mask(const GraphView& view, ValueId mask,
                                                            const ChainSizes& sizes,
                                                            const BiasSizes& of);

}  // namespace ctxgen::onednn
