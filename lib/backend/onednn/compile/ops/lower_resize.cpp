#include <algorithm>
#include <cmath>
#include <numeric>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

/// Which dims the scales or sizes are for.
Read<std::vector<std::int64_t>> resized_axes(const NodeView& n) {
  std::vector<std::int64_t> axes(n.rank(0));
  std::iota(axes.begin(), axes.end(), 0);
  const auto given = n.node().ints("axes");
  if (!given || given->empty()) return axes;
  axes = list_of(*given);
  for (std::int64_t& axis : axes) axis = CTXGEN_TRY(axis_of(axis, n.rank(0)));
  return axes;
}

Read<std::vector<float>> read_scales(const NodeView& n) {
  const Node& node = n.node();
  if (node.op_type == "Upsample" && node.opset < 9) {
    const Attribute* given = node.attribute("scales");
    if (given == nullptr) return refuse("scales are absent");
    return given->floats;
  }
  const std::size_t input = node.op_type == "Upsample" || node.opset < 11 ? 1 : 2;
  if (!n.has_input(input)) return std::vector<float>{};
  const Tensor* tensor = n.constant(input);
  if (tensor == nullptr) return refuse("scales are not constant");
  if (tensor->element_count() == 0) return std::vector<float>{};
  if (tensor->type() != DataType::kFloat || tensor->rank() != 1)
    return refuse("scales must be 1-D float32");
  return floats_of(*tensor);
}

Read<ResizeParams> read_factors(const NodeView& n) {
  ResizeParams params;
  const auto axes = CTXGEN_TRY(resized_axes(n));
  const auto scales = CTXGEN_TRY(read_scales(n));
  std::vector<std::int64_t> sizes;
  if (n.node().opset >= 11 && n.has_input(3))
    sizes = CTXGEN_TRY(constant_ints(n, 3, "sizes input"));
  if (scales.empty() == sizes.empty())
    return refuse("neither or both of scales and sizes are given");
  if (std::max(scales.size(), sizes.size()) != axes.size()) {
    return refuse("{} factors for {} axes", std::max(scales.size(), sizes.size()), axes.size());
  }
  if (!scales.empty()) params.scales.assign(n.rank(0), 1.0);
  if (!sizes.empty()) params.sizes.assign(n.rank(0), -1);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (!scales.empty()) {
      if (!(scales[i] > 0.0F) || scales[i] > 4096.0F) return refuse("scale {}", scales[i]);
      params.scales[axis] = double{scales[i]};
    } else {
      if (sizes[i] < 1 || sizes[i] > 1 << 20) return refuse("size {}", sizes[i]);
      params.sizes[axis] = sizes[i];
    }
  }
  return params;
}

/// Whether dim `i` keeps its size and its elements.
bool keeps_dim(const NodeView& n, const ResizeParams& params, std::size_t i) {
  if (!params.scales.empty()) return params.scales[i] == 1.0;
  if (params.sizes[i] < 0) return true;
  const Dim dim = n.input_dims(0)[i];
  return dim.is_fixed() && dim.value() == params.sizes[i];
}

Refusal check_words(const NodeView& n, const ResizeParams& params) {
  constexpr std::string_view kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                               "pytorch_half_pixel", "align_corners",
                                               "asymmetric",         "tf_half_pixel_for_nn"};
  constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                           "ceil"};
  if (params.mode != "nearest" && params.mode != "linear") {
    return std::format("mode is \"{}\"", params.mode);
  }
  if (std::ranges::find(kCoordinates, params.coordinates) == std::end(kCoordinates)) {
    return std::format("coordinate_transformation_mode is \"{}\"", params.coordinates);
  }
  if (std::ranges::find(kNearest, params.nearest) == std::end(kNearest)) {
    return std::format("nearest_mode is \"{}\"", params.nearest);
  }
  const Node& node = n.node();
  if (node.int_or("antialias", 0) != 0) return "antialias";
  if (node.string_or("keep_aspect_ratio_policy", "stretch") != "stretch") {
    return "keep_aspect_ratio_policy";
  }
  return std::nullopt;
}

Read<ResizeParams> read_resize(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  ResizeParams params = CTXGEN_TRY(read_factors(n));
  const Node& node = n.node();
  const bool old = node.op_type == "Upsample" || node.opset < 11;
  params.mode = node.string_or("mode", "nearest");
  params.coordinates =
      old ? "asymmetric" : node.string_or("coordinate_transformation_mode", "half_pixel");
  params.nearest = old ? "floor" : node.string_or("nearest_mode", "round_prefer_floor");
  CTXGEN_REFUSE(check_words(n, params));
  if (params.mode == "linear") {
    if (n.rank(0) < 3 || n.rank(0) > 5) return refuse("linear with rank {}", n.rank(0));
    if (!keeps_dim(n, params, 0) || !keeps_dim(n, params, 1)) {
      return refuse("linear over batch or channels");
    }
  }
  return params;
}

}  // namespace

Refusal check_resize(const NodeView& n) { return refusal_of(read_resize(n)); }

Status lower_resize(const NodeView& n, ProgramBuilder& builder) {
  const ResizeParams params = CTXGEN_TRY(accepted(read_resize(n), n));
  ProgramOp op = builder.op(kind::kResize, n);
  encode(params, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
