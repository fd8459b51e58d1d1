#pragma once

#include "window_attributes.h"

namespace ctxgen::onednn {

/// Reads the attributes of a convolution for a source that is input 0 and weights [M, C/group, K1..Kk] of the given dims.
[[nodiscard]] Read<ConvParams> read_conv_params(const NodeView& n, const Dims& weights);

}  // namespace ctxgen::onednn
