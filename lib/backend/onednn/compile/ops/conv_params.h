#pragma once

#include "window_attributes.h"

namespace ctxgen::onednn {

/// The attributes of a convolution.
struct ConvParams {
  WindowAttributes window;
  std::int64_t group = 1;
};

/// Reads them for a source that is input 0 and weights [M, C/group, K1..Kk] of the given dims.
[[nodiscard]] Read<ConvParams> read_conv_params(const NodeView& n, const Dims& weights);

}  // namespace ctxgen::onednn
