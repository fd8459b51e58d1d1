#pragma once

#include <string>
#include <vector>

#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

// Sliding windows of convolutions and pools: attributes, padding rules, output sizes.

namespace ctxgen::cpu {

/// The attributes as the node has them.
struct WindowAttributes {
  std::vector<std::int64_t> kernel;                    // empty: taken from the weights
  std::vector<std::int64_t> strides, dilations, pads;  // empty: 1, 1, 0
  std::string auto_pad = "NOTSET";
  bool ceil_mode = false;
};
[[nodiscard]] Result<WindowAttributes> window_attributes(const Node& node);

/// One spatial axis, resolved.
struct WindowAxis {
  std::int64_t input = 0, kernel = 1, stride = 1, dilation = 1;
  std::int64_t pad_begin = 0, pad_end = 0, output = 0;
};

struct Window {
  ScratchVector<WindowAxis> axes;
  [[nodiscard]] Dims outputs() const;
  [[nodiscard]] std::int64_t kernel_size() const;
};

/// Resolves the attributes for an input [N, C, D1..Dk] and a kernel.
/// Errors  INVALID_GRAPH where counts or values do not fit, or a dimension would be negative.
[[nodiscard]] Result<Window> resolve_window(const WindowAttributes& attributes, const Dims& input,
                                            std::span<const std::int64_t> kernel);

/// The bounds that keep products of window attributes far from overflow.
inline constexpr std::int64_t kMaxWindowValue = std::int64_t{1} << 30;

}  // namespace ctxgen::cpu
