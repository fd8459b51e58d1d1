#include <algorithm>
#include <cmath>

#include "ctxgen/base/checked.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels_move.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/index_maps.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// pad, tile, gather and resize by index maps that are made once per plan.
namespace ctxgen::onednn {

namespace {

std::unexpected<Error> too_large(const ProgramOp& op, std::int64_t dim) {
  return fail(ErrorCode::kResourceLimit, "{}: a dim of {} is too large", label(op), dim);
}

/// floor(dim * scale), as ONNX computes it: in float32.
Result<std::int64_t> scaled_dim(const ProgramOp& op, std::int64_t dim, double scale) {
  const double size = std::floor(static_cast<float>(dim) * static_cast<float>(scale));
  if (!(scale > 0.0) || !(size <= static_cast<double>(kMaxParam)))
    return fail(ErrorCode::kInvalidGraph, "{}: scale {} of a dim of {}", label(op), scale, dim);
  return static_cast<std::int64_t>(size);
}

Result<ShapeOutputs> pad_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const auto params = CTXGEN_TRY(decode<PadParams>(op));
  const IntList pads = CTXGEN_TRY(per_dim(op, "pads", params.pads, 2 * src.size(), 0));
  Dims out = src;
  for (std::size_t i = 0; i < src.size(); ++i) {
    out[i] += pads[i] + pads[src.size() + i];
    if (out[i] < 0)
      return fail(ErrorCode::kInvalidGraph, "{}: pads [{}, {}] of a dim of {}", label(op), pads[i],
                  pads[src.size() + i], src[i]);
  }
  return one_shape(out);
}

Result<ShapeOutputs> gather_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<GatherParams>(op));
  const Dims& src = in[0].dims;
  const std::size_t axis = CTXGEN_TRY(normal_axis(op, params.axis, src.size()));
  const IntList& indices = params.indices;
  const IntList& index_dims = params.index_dims;
  const bool ranks = src.size() - 1 + index_dims.size() <= kMaxRank;
  if (!ranks || std::ranges::any_of(index_dims, [](std::int64_t d) { return d < 1; }) ||
      checked_element_count(Dims(std::span(index_dims))) != indices.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} indices in {} dims", label(op), indices.size(),
                index_dims.size());
  Dims out(src.span().first(axis));
  for (const std::int64_t dim : index_dims) out.push_back(dim);
  for (const std::int64_t dim : src.span().subspan(axis + 1)) out.push_back(dim);
  return one_shape(out);
}

Result<ShapeOutputs> tile_shape(const ProgramOp& op, ShapeInputs in) {
  Dims out = in[0].dims;
  const auto params = CTXGEN_TRY(decode<TileParams>(op));
  const IntList repeats = CTXGEN_TRY(per_dim(op, "repeats", params.repeats, out.size(), 1));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (repeats[i] < 0)
      return fail(ErrorCode::kInvalidGraph, "{}: {} repeats", label(op), repeats[i]);
    if (repeats[i] > 0 && out[i] > static_cast<std::int64_t>(kMaxTensorBytes) / repeats[i])
      return too_large(op, out[i]);
    out[i] *= repeats[i];
  }
  return one_shape(out);
}

Result<ShapeOutputs> resize_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<ResizeParams>(op));
  const Dims& src = in[0].dims;
  const std::vector<double>& scales = params.scales;
  const IntList sizes = CTXGEN_TRY(per_dim(op, "sizes", params.sizes, src.size(), -1));
  if (!scales.empty() && scales.size() != src.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} scales for rank {}", label(op), scales.size(),
                src.size());
  for (const double scale : scales)
    if (!(static_cast<float>(scale) > 0) || !std::isfinite(scale))  // maps compute in float32
      return fail(ErrorCode::kInvalidGraph, "{}: scale {}", label(op), scale);
  Dims out = src;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (sizes[i] >= 0)
      out[i] = sizes[i];
    else if (!scales.empty())
      out[i] = CTXGEN_TRY(scaled_dim(op, src[i], scales[i]));
  }
  return one_shape(out);
}

Status place_resize(Placement& pass, std::uint32_t op) {
  const auto params = CTXGEN_TRY(decode<ResizeParams>(pass.program().ops[op]));
  return params.mode == "nearest" ? place_index(pass, op) : place_spatial(pass, op);
}

/// Pads of 0, which exporters leave where sizes divide, are the source itself.
Status place_pad(Placement& pass, std::uint32_t op) {
  const ProgramOp& pad = pass.program().ops[op];
  const Operand& operand = pad.inputs[0];
  const IntList pads = CTXGEN_TRY(decode<PadParams>(pad)).pads;
  if (!std::ranges::all_of(pads, [](std::int64_t n) { return n == 0; }))
    return place_index(pass, op);
  const SlotId src = pass.need(operand, pass.primary_of(operand), Placement::Density::kStrided, op);
  pass.set_view(pad.outputs[0], pass.slot(src), operand, op);
  return {};
}

/// One index without dims is a part of the source.
Status place_gather(Placement& pass, std::uint32_t op) {
  const ProgramOp& gather = pass.program().ops[op];
  const Operand& operand = gather.inputs[0];
  const Dims& dims = pass.dims_of(operand);
  const std::size_t axis = CTXGEN_TRY(axis_param<GatherParams>(gather, dims.size()));
  const AxisMap indices = CTXGEN_TRY(gather_map(gather, dims[axis]));
  if (pass.dims(gather.outputs[0]).size() >= dims.size()) return place_index(pass, op);
  const SlotId src = pass.need(operand, pass.primary_of(operand), Placement::Density::kStrided, op);
  const Slot from = pass.slot(src);
  Slot part = from;
  part.offset += indices[0] * from.strides[axis];
  part.dims = part.strides = {};
  for (std::size_t i = 0; i < from.dims.size(); ++i) {
    if (i == axis) continue;
    part.dims.push_back(from.dims[i]);
    part.strides.push_back(from.strides[i]);
  }
  pass.set_view(gather.outputs[0], part, operand, op);
  return {};
}

Status add_index_kernel(NodeBuilder& builder, const std::vector<AxisMap>& maps,
                        const Dims& src_strides, float fill) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  builder.add_kernel("loop:index", make_index_kernel(maps, src_strides, dst.strides, fill),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_pad(NodeBuilder& builder) {
  const auto maps = CTXGEN_TRY(pad_maps(builder.op(), builder.input(0).dims));
  const double fill = CTXGEN_TRY(decode<PadParams>(builder.op())).value;
  return add_index_kernel(builder, maps, builder.input(0).strides, static_cast<float>(fill));
}

Status build_tile(NodeBuilder& builder) {
  const auto maps = CTXGEN_TRY(tile_maps(builder.op(), builder.input(0).dims));
  return add_index_kernel(builder, maps, builder.input(0).strides, 0);
}

/// The gathered axis becomes one dim of all indices; index_dims only name parts of it.
Status build_gather(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(axis_param<GatherParams>(builder.op(), src.dims.size()));
  const AxisMap indices = CTXGEN_TRY(gather_map(builder.op(), src.dims[axis]));
  const std::size_t index_rank = dst.dims.size() + 1 - src.dims.size();
  std::vector<AxisMap> maps;
  Dims src_strides, dst_strides;
  for (std::size_t i = 0; i < src.dims.size(); ++i) {
    AxisMap map = indices;
    if (i != axis) {
      map.clear();
      for (std::int64_t x = 0; x < src.dims[i]; ++x) map.push_back(x);
    }
    maps.push_back(std::move(map));
    src_strides.push_back(src.strides[i]);
    // A result of another rank is plain: the last index dim has the stride of the whole axis.
    const std::size_t at = i < axis ? i : i + index_rank - 1;
    dst_strides.push_back(i == axis && index_rank == 0 ? 0 : dst.strides[at]);
  }
  builder.add_kernel("loop:index", make_index_kernel(maps, src_strides, dst_strides, 0),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return {};
}

Status build_resize(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::string mode = CTXGEN_TRY(decode<ResizeParams>(builder.op())).mode;
  if (mode == "nearest") {
    const auto maps = CTXGEN_TRY(nearest_maps(builder.op(), src.dims, dst.dims));
    return add_index_kernel(builder, maps, src.strides, 0);
  }
  const bool spatial = src.dims.size() >= 3 && src.dims.size() <= 5 && src.dims[0] == dst.dims[0] &&
                       src.dims[1] == dst.dims[1];
  if (mode != "linear" || !spatial)
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\" from {} to {}", label(builder.op()), mode,
                to_string(src.dims), to_string(dst.dims));
  const auto taps = CTXGEN_TRY(linear_taps(builder.op(), src.dims, dst.dims));
  builder.add_kernel("loop:linear", make_linear_kernel(src.dims, dst.dims, taps),
                     {builder.slot_arg(src), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kPadRow{
    .name = kind::kPad,
    .number = 24,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true, .map_entries_per_dim = 1},
    .types = check_f32_types,
    .shape = pad_shape,
    .place = place_pad,
    .build = build_pad,
};

constinit const KindRow kGatherRow{
    .name = kind::kGather,
    .number = 25,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true, .map_entries_per_dim = 1},
    .types = check_f32_types,
    .shape = gather_shape,
    .place = place_gather,
    .build = build_gather,
};

constinit const KindRow kTileRow{
    .name = kind::kTile,
    .number = 26,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true, .map_entries_per_dim = 1},
    .types = check_f32_types,
    .shape = tile_shape,
    .place = place_index,
    .build = build_tile,
};

constinit const KindRow kResizeRow{
    .name = kind::kResize,
    .number = 29,
    .inputs = {1, 1},
    .traits = {.map_entries_per_dim = 3},
    .types = check_f32_types,
    .shape = resize_shape,
    .place = place_resize,
    .build = build_resize,
};

Status check_map_sizes(const NodeGraph& graph) {
  constexpr std::int64_t kMostPerDim = std::int64_t{1} << 24, kMostPerPlan = std::int64_t{1} << 28;
  std::int64_t entries = 0;
  for (const Node& node : graph.nodes) {
    if (node.program_op == nullptr) continue;
    const ProgramOp& op = *node.program_op;
    const std::int64_t per_dim = traits_of(op).map_entries_per_dim;
    if (per_dim == 0) continue;
    const Dims& dims = graph.slots[node.outputs[0]].dims;
    if (volume(dims) == 0) continue;  // no kernel is made
    for (const std::int64_t dim : dims) {
      if (dim > kMostPerDim)
        return fail(ErrorCode::kResourceLimit, "{}: a dim of {}, limit {}", label(op), dim,
                    kMostPerDim);
      entries += per_dim * dim;
    }
    if (entries > kMostPerPlan)
      return fail(ErrorCode::kResourceLimit,
                  "{}: the index maps of the plan have {} entries up to here, limit {}", label(op),
                  entries, kMostPerPlan);
  }
  return {};
}

}  // namespace ctxgen::onednn
