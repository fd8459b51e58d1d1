#include "kernels/kernels_reduce.h"
#include "plan/builder_fused.h"

// Reductions and the norms that have no fast kernel in oneDNN for every shape: own loops
// (docs/onednn.md, "Reduction and normalisation").
namespace ctxgen::onednn {

Status build_reduce(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::string word = CTXGEN_TRY(params.text("mode", ""));
  const auto mode = reduce_mode(word);
  if (!mode) return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(builder.op()), word);
  std::vector<bool> reduced(src.dims.size());
  const auto axes = CTXGEN_TRY(params.list("axes"));
  for (const std::int64_t axis : axes)
    reduced[CTXGEN_TRY(normal_axis(builder.op(), axis, src.dims.size()))] = true;
  const bool keep = dst.dims.size() == src.dims.size();
  Dims dst_strides(src.dims.size(), 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < src.dims.size(); ++i) {
    if (!reduced[i]) dst_strides[i] = dst.strides[at];
    if (!reduced[i] || keep) ++at;
  }
  builder.add_kernel("loop:reduce",
                     make_reduce_kernel(src.dims, src.strides, dst_strides, reduced, *mode),
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_rms_norm(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(axis_param(builder.op(), -1, src.dims.size()));
  const auto epsilon = static_cast<float>(CTXGEN_TRY(params.real("epsilon", 1e-5)));
  const std::int64_t rows = volume(Dims(src.dims.span().first(axis)));
  builder.add_kernel("loop:rms_norm", make_rms_kernel(rows, volume(src.dims, axis), epsilon),
                     {builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, builder.input(1)),
                      builder.slot_arg(0, {}, dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_group_norm(NodeBuilder& builder) {
  const Params params(builder.op());
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto epsilon = static_cast<float>(CTXGEN_TRY(params.real("epsilon", 1e-5)));
  const GroupNormShape shape{.images = src.dims[0],
                             .channels = src.dims[1],
                             .pixels = volume(src.dims, 2),
                             .groups = CTXGEN_TRY(params.integer("groups", 1)),
                             .channels_last = !is_layout(src.dims, src.strides, Layout::kPlain)};
  std::vector<Arg> args{builder.slot_arg(0, {}, src), builder.slot_arg(0, {}, dst)};
  for (std::size_t i = 1; i <= 2; ++i)
    if (builder.has_input(i)) args.push_back(builder.slot_arg(0, {}, builder.input(i)));
  builder.add_kernel(
      "loop:group_norm",
      make_group_norm_kernel(shape, epsilon, builder.has_input(1), builder.has_input(2)),
      std::move(args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace ctxgen::onednn
