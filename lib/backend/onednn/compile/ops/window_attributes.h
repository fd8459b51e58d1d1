#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../node_view.h"
#include "../program_builder.h"

namespace ctxgen::onednn {

/// The sliding window of a convolution or pool: the attributes that both have, as the node gives
/// them. pads are empty if auto_pad says SAME_*.
struct WindowAttributes : WindowParams {
  IntList kernel = {};
};

/// Reads and bounds the attributes; absent ones get ONNX's defaults. `kernel` is what weights say
/// (conv) or empty (pools: kernel_shape is required).
[[nodiscard]] Read<WindowAttributes> read_window(const NodeView& n, std::size_t spatial_rank,
                                                 std::vector<std::int64_t> kernel);

}  // namespace ctxgen::onednn
