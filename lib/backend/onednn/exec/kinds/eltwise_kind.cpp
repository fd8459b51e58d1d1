#include <array>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "plan/shapes.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// eltwise, binary and scale_shift: memory-bound work, mostly own loops, which cost nothing to create; oneDNN's
// element-wise kernels serve the functions that need a vector exponential.
namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> binary_shape(const ProgramOp& op, ShapeInputs in) {
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, in[1].dims)));
}

Result<ShapeOutputs> scale_shift_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  if (src.size() < 2 || in[1].dims != Dims{src[1]} || in[2].dims != Dims{src[1]})
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, scale {}, shift {}", label(op),
                to_string(src), to_string(in[1].dims), to_string(in[2].dims));
  return one_shape(src);
}

Status place_binary(Placement& pass, std::uint32_t op) {
  const ProgramOp& binary = pass.program().ops[op];
  const Dims& out = pass.dims(binary.outputs[0]);
  const Layout layout = joint_layout(pass, op);
  // The loops run from the first operand; a broadcast one goes second where that is the same.
  std::array<std::size_t, 2> order{0, 1};
  const std::string alg = CTXGEN_TRY(decode<BinaryParams>(binary)).alg;
  const bool commutes = alg == "add" || alg == "mul" || alg == "max" || alg == "min";
  if (commutes && pass.dims_of(binary.inputs[0]) != out && pass.dims_of(binary.inputs[1]) == out)
    std::swap(order[0], order[1]);
  std::vector<SlotId> inputs;
  SlotId reuse = kNone;
  bool source_dense = true;
  for (const std::size_t index : order) {
    const Operand& operand = binary.inputs[index];
    const bool full = pass.dims_of(operand) == out;
    inputs.push_back(pass.need(operand, full ? layout : pass.primary_of(operand),
                               Placement::Density::kStrided, op));
    const bool dense = full && pass.is_dense(inputs.back(), layout);
    if (inputs.size() == 1) source_dense = dense;
    // A broadcast source is spread over the destination first, which must not hold the other one.
    if (dense && source_dense && reuse == kNone && pass.may_overwrite(operand, inputs.back(), op))
      reuse = inputs.back();
  }
  pass.add_placed(op, layout, std::move(inputs), reuse);
  return {};
}

/// The post-ops of the node after `first` stages of its own.
std::vector<NodePostOp> with_post_ops(std::vector<NodePostOp> first, const NodeBuilder& builder) {
  first.insert(first.end(), builder.node().post_ops.begin(), builder.node().post_ops.end());
  return first;
}

Status build_eltwise(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<EltwiseParams>(builder.op()));
  PostOp stage;
  stage.kind = params.alg;
  stage.alpha = static_cast<float>(params.alpha);
  stage.beta = static_cast<float>(params.beta);
  if (eltwise_algorithm(stage.kind) == dnnl::algorithm::undef && !point_op(stage.kind, false))
    return fail(ErrorCode::kUnsupported, "{}: alg \"{}\"", label(builder.op()), stage.kind);
  NodePostOp first;
  first.post = &stage;
  return builder.add_chain(builder.input(0), builder.output(), with_post_ops({first}, builder));
}

Status build_binary(NodeBuilder& builder) {
  PostOp stage;
  stage.kind = CTXGEN_TRY(decode<BinaryParams>(builder.op())).alg;
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
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(dst)};
  for (std::size_t i = 1; i <= 2; ++i) {
    PointStage stage{i == 1 ? PointOp::kMul : PointOp::kAdd, 0, 0, Dims(dst.dims.size(), 0)};
    stage.strides[1] = 1;
    stages.push_back(stage);
    args.push_back(builder.slot_arg(builder.input(i)));
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
  const bool narrow = src.type != DataType::kFloat || dst.type != DataType::kFloat;
  builder.add_kernel("loop:scale_shift",
                     narrow
                         ? make_typed_kernel(dst.dims, src_strides, dst.strides, std::move(stages),
                                             {src.type}, {dst.type}, {Stored(), Stored()})
                         : make_point_kernel(dst.dims, src_strides, dst.strides, std::move(stages)),
                     std::move(args));
  return builder.add_chain(dst, dst, rest);
}

}  // namespace

constinit const KindRow kEltwiseRow{
    .name = kind::kEltwise,
    .number = 5,
    .inputs = {1, 1},
    .traits = {.keeps_dims = true, .absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_f32_types,
    .shape = same_shape,
    .place = place_eltwise,
    .build = build_eltwise,
};

constinit const KindRow kBinaryRow{
    .name = kind::kBinary,
    .number = 6,
    .inputs = {2, 2},
    .traits = {.absorbs_eltwise = true, .absorbs_binary = true},
    .types = check_f32_types,
    .shape = binary_shape,
    .place = place_binary,
    .build = build_binary,
};

constinit const KindRow kScaleShiftRow{
    .name = kind::kScaleShift,
    .number = 7,
    .inputs = {3, 3},
    .traits = {.keeps_dims = true, .absorbs_eltwise = true, .reads_growing_concat = true},
    .types = check_scaled_types,
    .shape = scale_shift_shape,
    .place = place_walking,
    .build = build_scale_shift,
};

}  // namespace ctxgen::onednn
