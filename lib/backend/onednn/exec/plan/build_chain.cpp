#include "kernels/kernels.h"
#include "plan/builder_fused.h"

namespace ctxgen::onednn {

/// One element-wise function by oneDNN over tensors of the same dense layout, seen as a vector.
Status NodeBuilder::add_eltwise(const Slot& src, const Slot& dst, const PostOp& stage) {
  const dnnl::algorithm algorithm = eltwise_algorithm(stage.kind);
  if (algorithm == dnnl::algorithm::undef)
    return fail(ErrorCode::kUnsupported, "{}: no element-wise operation \"{}\"", label(op()),
                stage.kind);
  const auto make = [&](const dnnl::primitive_attr& attr) {
    const auto md = make_md(Dims{volume(dst.dims)}, Dims{1});
    return dnnl::eltwise_forward::primitive_desc(cpu_engine(), dnnl::prop_kind::forward_inference,
                                                 algorithm, md, md, stage.alpha, stage.beta, attr);
  };
  const auto md = make_md(Dims{volume(dst.dims)}, Dims{1});
  return add_primitive<dnnl::eltwise_forward>(
      make, {slot_arg(DNNL_ARG_SRC, md, src), slot_arg(DNNL_ARG_DST, md, dst)});
}

Status NodeBuilder::add_chain(const Slot& src, const Slot& dst,
                              std::span<const NodePostOp> stages) {
  constexpr std::size_t kMostStages = 16;  // bounds the pointers that a kernel keeps
  const Slot* from = &src;
  std::size_t next = 0;
  while (next < stages.size() || (stages.empty() && from == &src && &src != &dst)) {
    std::vector<PointStage> points;
    std::vector<Stored> operands;
    bool narrow = from->type != DataType::kFloat || dst.type != DataType::kFloat;
    std::vector<Arg> args{slot_arg(*from), slot_arg(dst)};
    while (next < stages.size() && points.size() < kMostStages) {
      const NodePostOp& stage = stages[next];
      const auto point = point_op(stage.post->kind, stage.operand != kNone);
      if (!point) break;
      PointStage added{*point, stage.post->alpha, stage.post->beta, {}};
      if (takes_operand(*point)) {
        if (stage.operand == kNone)
          return fail(ErrorCode::kCorruptContext, "{}: post-op {} has no operand", label(op()),
                      stage.post->kind);
        added.strides = broadcast_strides(slot(stage.operand), dst.dims);
        operands.push_back({slot(stage.operand).type});
        narrow = narrow || operands.back().type != DataType::kFloat;
        args.push_back(slot_arg(slot(stage.operand)));
      }
      points.push_back(added);
      ++next;
    }
    // oneDNN's element-wise kernels want dense tensors: a source of another form is loaded first.
    const bool same_form = from->strides == dst.strides;
    if (narrow && next < stages.size() && points.empty())
      return fail(ErrorCode::kUnsupported, "{}: no loop for \"{}\" over {}", label(op()),
                  stages[next].post->kind, name_of(dst.type));
    if (narrow)
      add_kernel(
          "loop:typed",
          make_typed_kernel(dst.dims, broadcast_strides(*from, dst.dims), dst.strides,
                            std::move(points), {from->type}, {dst.type}, std::move(operands)),
          std::move(args));
    else if (!points.empty() || next == stages.size() || (from == &src && !same_form))
      add_kernel("loop:pointwise",
                 make_point_kernel(dst.dims, broadcast_strides(*from, dst.dims), dst.strides,
                                   std::move(points)),
                 std::move(args));
    else
      CTXGEN_CHECK(add_eltwise(*from, dst, *stages[next++].post));
    from = &dst;
  }
  return {};
}

}  // namespace ctxgen::onednn
