#include "kernels/kernels.h"
#include "plan/builder_fused.h"

// eltwise, binary, select, scale_shift and copies: memory-bound work, mostly own loops, which cost nothing to
// create; oneDNN's element-wise kernels serve the functions that need a vector exponential.
namespace ctxgen::onednn {
namespace {

/// The post-ops of the node behind `first` stages of its own.
std::vector<NodePostOp> with_post_ops(std::vector<NodePostOp> first, const NodeBuilder& builder) {
  first.insert(first.end(), builder.node().post_ops.begin(), builder.node().post_ops.end());
  return first;
}

}  // namespace

Status build_eltwise(NodeBuilder& builder) {
  const Params params(builder.op());
  PostOp stage;
  stage.kind = CTXGEN_TRY(params.text("alg", ""));
  stage.alpha = static_cast<float>(CTXGEN_TRY(params.real("alpha", 0)));
  stage.beta = static_cast<float>(CTXGEN_TRY(params.real("beta", 0)));
  if (eltwise_algorithm(stage.kind) == dnnl::algorithm::undef && !point_op(stage.kind, false))
    return fail(ErrorCode::kUnsupported, "{}: alg \"{}\"", label(builder.op()), stage.kind);
  NodePostOp first;
  first.post = &stage;
  return builder.add_chain(builder.input(0), builder.output(), with_post_ops({first}, builder));
}

Status build_binary(NodeBuilder& builder) {
  PostOp stage;
  stage.kind = CTXGEN_TRY(Params(builder.op()).text("alg", ""));
  const auto point = point_op(stage.kind, true);
  if (!point || !takes_operand(*point))
    return fail(ErrorCode::kUnsupported, "{}: alg \"{}\"", label(builder.op()), stage.kind);
  NodePostOp first;
  first.post = &stage;
  first.operand = builder.node().inputs[1];
  return builder.add_chain(builder.input(0), builder.output(), with_post_ops({first}, builder));
}

/// y = x * scale[c] + shift[c]: per-channel operands, broadcast over batch and pixels.
Status build_scale_shift(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  std::vector<PointStage> stages;
  std::vector<Arg> args{builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)};
  for (std::size_t i = 1; i <= 2; ++i) {
    PointStage stage{i == 1 ? PointOp::kMul : PointOp::kAdd, 0, 0, Dims(dst.dims.size(), 0)};
    stage.strides[1] = 1;
    stages.push_back(stage);
    args.push_back(builder.slot_arg(0, {}, builder.input(i)));
  }
  // A following relu costs nothing in the same pass.
  std::span<const NodePostOp> rest(builder.node().post_ops);
  if (!rest.empty() && rest[0].post->kind == "relu") {
    stages.push_back({PointOp::kRelu, rest[0].post->alpha, 0, {}});
    rest = rest.subspan(1);
  }
  Dims src_strides = src.strides;
  for (std::size_t i = 0; i < src_strides.size(); ++i)
    if (src.dims[i] == 1) src_strides[i] = 0;
  builder.add_kernel("loop:scale_shift",
                     make_point_kernel(dst.dims, src_strides, dst.strides, std::move(stages)),
                     std::move(args));
  return builder.add_chain(dst, dst, rest);
}

/// An own loop: oneDNN's select reads a broadcast condition with its reference kernel only.
Status build_select(NodeBuilder& builder) {
  const Slot& dst = builder.output();
  const auto strides = [&](std::size_t i) { return broadcast_strides(builder.input(i), dst.dims); };
  const auto arg = [&](const Slot& slot) { return builder.slot_arg(0, {}, slot); };
  builder.add_kernel(
      "loop:select", make_select_kernel(dst.dims, strides(0), strides(1), strides(2), dst.strides),
      {arg(builder.input(0)), arg(builder.input(1)), arg(builder.input(2)), arg(dst)});
  return {};
}

/// Between plain and channels-last oneDNN has a blocked transpose; copies of rows are own loops.
Status build_copy(NodeBuilder& builder) {
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  constexpr std::int64_t kWorthPrimitive = 8192;  // below, a loop is done before a call is set up
  bool transposes = dst.dims.size() >= 3 && volume(dst.dims) >= kWorthPrimitive;
  const auto dense = [](const Slot& slot, Layout layout) {
    return is_layout(slot.dims, slot.strides, layout);
  };
  transposes = transposes && !layouts_coincide(dst.dims) &&
               ((dense(src, Layout::kPlain) && dense(dst, Layout::kChannelsLast)) ||
                (dense(src, Layout::kChannelsLast) && dense(dst, Layout::kPlain)));
  if (transposes) {
    // Three dims say the same and leave oneDNN no odd ranks: [N, C, pixels].
    const Dims dims{dst.dims[0], dst.dims[1], volume(dst.dims, 2)};
    const bool to_last = dense(dst, Layout::kChannelsLast);
    const auto src_md =
        make_md(dims, strides_of(to_last ? Layout::kPlain : Layout::kChannelsLast, dims), src.type);
    const auto dst_md =
        make_md(dims, strides_of(to_last ? Layout::kChannelsLast : Layout::kPlain, dims), dst.type);
    const auto make = [&](const dnnl::primitive_attr& attr) {
      return dnnl::reorder::primitive_desc(cpu_engine(), src_md, cpu_engine(), dst_md, attr);
    };
    const Status status = builder.add_primitive<dnnl::reorder>(
        make, {builder.slot_arg(DNNL_ARG_FROM, src_md, src),
               builder.slot_arg(DNNL_ARG_TO, dst_md, dst)});
    if (status || status.error().code != ErrorCode::kUnsupported) return status;
  }
  builder.add_kernel("loop:copy", make_copy_kernel(dst.dims, src.strides, dst.strides,
                                                      element_bytes(dst.type)),
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return {};
}

}  // namespace ctxgen::onednn
