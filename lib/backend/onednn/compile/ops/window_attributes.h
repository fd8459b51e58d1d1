#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "../node_view.h"
#include "../program_builder.h"

namespace ctxgen::onednn {

/// The sliding window of a convolution or pool: the attributes that both have, as the node gives
/// them. (Not "Window": onednn/exec has a type of that name in this namespace.)
struct WindowAttributes {
  std::vector<std::int64_t> kernel, strides, dilations;
  std::vector<std::int64_t> pads;  // begins, then ends; empty if auto_pad says SAME_*
  std::string auto_pad;            // "" or SAME_UPPER or SAME_LOWER
};

/// Reads and bounds the attributes; absent ones get ONNX's defaults. `kernel` is what weights say
/// (conv) or empty (pools: kernel_shape is required).
[[nodiscard]] Read<WindowAttributes> read_window(const NodeView& n, std::size_t spatial_rank,
                                       std::vector<std::int64_t> kernel);

/// Writes strides, dilations and pads or auto_pad.
void set_window(ProgramOp& op, const WindowAttributes& window);

}  // namespace ctxgen::onednn
