#include "window_attributes.h"

#include <algorithm>
#include <string_view>

namespace ctxgen::onednn {

namespace {

// Larger numbers have no use and would bring products of them near the edge of 64 bits.
constexpr std::int64_t kMaxWindowNumber = 1 << 20;

Read<std::vector<std::int64_t>> read_list(const NodeView& n, std::string_view name,
                                          std::size_t count, std::int64_t otherwise,
                                          std::int64_t least) {
  const auto given = n.node().ints(name);
  if (!given || given->empty()) return std::vector<std::int64_t>(count, otherwise);
  if (given->size() != count) {
    return refuse("{} has {} values, expected {}", name, given->size(), count);
  }
  for (const std::int64_t value : *given) {
    if (value < least || value > kMaxWindowNumber) {
      return refuse("{} holds {}, expected {} to {}", name, value, least, kMaxWindowNumber);
    }
  }
  return list_of(*given);
}

}  // namespace

Read<WindowAttributes> read_window(const NodeView& n, std::size_t spatial_rank,
                                   std::vector<std::int64_t> kernel) {
  WindowAttributes window;
  if (kernel.empty() && !n.node().ints("kernel_shape")) return refuse("kernel_shape is absent");
  window.kernel = CTXGEN_TRY(read_list(n, "kernel_shape", spatial_rank, 0, 1));
  if (!kernel.empty()) {
    if (n.node().ints("kernel_shape") && window.kernel != kernel) {
      return refuse("kernel_shape differs from the dims of the weights");
    }
    window.kernel = std::move(kernel);
  }
  window.strides = CTXGEN_TRY(read_list(n, "strides", spatial_rank, 1, 1));
  window.dilations = CTXGEN_TRY(read_list(n, "dilations", spatial_rank, 1, 1));
  const std::string_view auto_pad = n.node().string_or("auto_pad", "NOTSET");
  if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
    window.auto_pad = auto_pad;
    return window;
  }
  window.pads.assign(2 * spatial_rank, 0);
  if (auto_pad == "VALID") return window;
  if (auto_pad != "NOTSET" && !auto_pad.empty()) return refuse("auto_pad is \"{}\"", auto_pad);
  window.pads = CTXGEN_TRY(read_list(n, "pads", 2 * spatial_rank, 0, 0));
  return window;
}

}  // namespace ctxgen::onednn
