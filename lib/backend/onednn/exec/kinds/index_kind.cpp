#include "ctxgen/onednn/op_kinds.h"
#include "kernels/kernels_move.h"
#include "plan/builder_fused.h"

// pad, tile, gather and resize by index maps that are made once per plan.
namespace ctxgen::onednn {
namespace {

Status add_index_kernel(NodeBuilder& builder, const std::vector<AxisMap>& maps,
                        const Dims& src_strides, float fill) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  builder.add_kernel("loop:index", make_index_kernel(maps, src_strides, dst.strides, fill),
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

Status check_map_sizes(const NodeGraph& graph) {
  constexpr std::int64_t kMostPerDim = std::int64_t{1} << 24, kMostPerPlan = std::int64_t{1} << 28;
  std::int64_t entries = 0;
  for (const Node& node : graph.nodes) {
    if (node.program_op == nullptr) continue;
    const ProgramOp& op = *node.program_op;
    const bool resizes = op.kind == kind::kResize;
    if (!resizes && op.kind != kind::kPad && op.kind != kind::kTile && op.kind != kind::kGather)
      continue;
    const Dims& dims = graph.slots[node.outputs[0]].dims;
    if (volume(dims) == 0) continue;  // no kernel is made
    for (const std::int64_t dim : dims) {
      if (dim > kMostPerDim)
        return fail(ErrorCode::kResourceLimit, "{}: a dim of {}, limit {}", label(op), dim,
                    kMostPerDim);
      entries += resizes ? 3 * dim : dim;  // a linear tap is as large as three indices
    }
    if (entries > kMostPerPlan)
      return fail(ErrorCode::kResourceLimit,
                  "{}: the index maps of the plan have {} entries up to here, limit {}", label(op),
                  entries, kMostPerPlan);
  }
  return {};
}

Status build_pad(NodeBuilder& builder) {
  const auto maps = CTXGEN_TRY(pad_maps(builder.op(), builder.input(0).dims));
  const double fill = CTXGEN_TRY(Params(builder.op()).real("value", 0));
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
  const std::size_t axis = CTXGEN_TRY(axis_param(builder.op(), 0, src.dims.size()));
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
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return {};
}

Status build_resize(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::string mode = CTXGEN_TRY(Params(builder.op()).text("mode", "nearest"));
  if (mode == "nearest") {
    const auto maps = CTXGEN_TRY(nearest_maps(builder.op(), src.dims, dst.dims));
    return add_index_kernel(builder, maps, src.strides, 0);
  }
  const bool spatial = src.dims.size() >= 3 && src.dims.size() <= 5 &&
                       src.dims[0] == dst.dims[0] && src.dims[1] == dst.dims[1];
  if (mode != "linear" || !spatial)
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\" from {} to {}", label(builder.op()), mode,
                to_string(src.dims), to_string(dst.dims));
  const auto taps = CTXGEN_TRY(linear_taps(builder.op(), src.dims, dst.dims));
  builder.add_kernel("loop:linear", make_linear_kernel(src.dims, dst.dims, taps),
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace ctxgen::onednn
