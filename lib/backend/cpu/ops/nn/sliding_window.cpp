#include "ops/nn/sliding_window.h"

#include <algorithm>
#include <array>

namespace ctxgen::cpu {
namespace {

Status check_values(std::span<const std::int64_t> values, std::string_view what,
                    std::int64_t least) {
  for (std::int64_t value : values)
    if (value < least || value > kMaxWindowValue)
      return fail(ErrorCode::kInvalidGraph, "{} has {}", what, value);
  return {};
}

Status check_count(std::size_t count, std::string_view what, std::size_t expected) {
  if (count == 0 || count == expected) return {};
  return fail(ErrorCode::kInvalidGraph, "{} has {} values, expected {}", what, count, expected);
}

// SAME: as many outputs as strides fit; the odd element of padding goes to one side.
Status pad_same(WindowAxis& axis, bool upper) {
  axis.output = (axis.input + axis.stride - 1) / axis.stride;
  const std::int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
  const std::int64_t total =
      std::max<std::int64_t>(0, (axis.output - 1) * axis.stride + extent - axis.input);
  axis.pad_begin = upper ? total / 2 : total - total / 2;
  axis.pad_end = total - axis.pad_begin;
  return check_values(std::array{axis.pad_begin, axis.pad_end}, "SAME padding", 0);
}

Status count_outputs(WindowAxis& axis, bool ceil_mode) {
  const std::int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
  const std::int64_t room = axis.input + axis.pad_begin + axis.pad_end - extent;
  if (room < 0)
    return fail(ErrorCode::kInvalidGraph, "a window of {} does not fit into {} with padding {} {}",
                extent, axis.input, axis.pad_begin, axis.pad_end);
  axis.output = room / axis.stride + 1;
  if (!ceil_mode || room % axis.stride == 0) return {};
  // A window that would start in the padding at the end is left out.
  if (axis.output * axis.stride < axis.input + axis.pad_begin) ++axis.output;
  return {};
}

}  // namespace

Dims Window::outputs() const {
  Dims dims;
  for (const WindowAxis& axis : axes) dims.push_back(axis.output);
  return dims;
}

std::int64_t Window::kernel_size() const {
  std::int64_t size = 1;
  for (const WindowAxis& axis : axes) size *= axis.kernel;
  return size;
}

Result<WindowAttributes> window_attributes(const Node& node) {
  WindowAttributes window;
  window.kernel = ints_or(node, "kernel_shape", {});
  window.strides = ints_or(node, "strides", {});
  window.dilations = ints_or(node, "dilations", {});
  window.pads = ints_or(node, "pads", {});
  window.auto_pad = CTXGEN_TRY(
      one_of(node, "auto_pad", "NOTSET", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", ""}));
  window.ceil_mode = node.int_or("ceil_mode", 0) != 0;
  CTXGEN_CHECK(check_values(window.kernel, "kernel_shape", 1));
  CTXGEN_CHECK(check_values(window.strides, "strides", 1));
  CTXGEN_CHECK(check_values(window.dilations, "dilations", 1));
  // Negative pads crop; they are legal and bounded likewise.
  CTXGEN_CHECK(check_values(window.pads, "pads", -kMaxWindowValue));
  return window;
}

Result<Window> resolve_window(const WindowAttributes& attributes, const Dims& input,
                              std::span<const std::int64_t> kernel) {
  if (input.size() < 3)
    return fail(ErrorCode::kInvalidGraph, "input has rank {}, expected at least 3", input.size());
  const std::size_t spatial = input.size() - 2;
  CTXGEN_CHECK(check_count(kernel.empty() ? SIZE_MAX : kernel.size(), "kernel_shape", spatial));
  CTXGEN_CHECK(check_count(attributes.strides.size(), "strides", spatial));
  CTXGEN_CHECK(check_count(attributes.dilations.size(), "dilations", spatial));
  CTXGEN_CHECK(check_count(attributes.pads.size(), "pads", 2 * spatial));
  CTXGEN_CHECK(check_values(kernel, "kernel", 1));
  CTXGEN_CHECK(check_values(input.span().subspan(2), "the input's shape", 0));
  Window window;
  for (std::size_t i = 0; i < spatial; ++i) {
    WindowAxis axis{.input = input[i + 2], .kernel = kernel[i]};
    if (!attributes.strides.empty()) axis.stride = attributes.strides[i];
    if (!attributes.dilations.empty()) axis.dilation = attributes.dilations[i];
    if (attributes.auto_pad.starts_with("SAME")) {
      CTXGEN_CHECK(pad_same(axis, attributes.auto_pad == "SAME_UPPER"));
    } else {
      if (attributes.auto_pad != "VALID" && !attributes.pads.empty()) {
        axis.pad_begin = attributes.pads[i];
        axis.pad_end = attributes.pads[i + spatial];
      }
      CTXGEN_CHECK(count_outputs(axis, attributes.ceil_mode));
    }
    window.axes.push_back(axis);
  }
  return window;
}

}  // namespace ctxgen::cpu
