#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels_reduce.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// In loops of our own but for narrow rows (docs/onednn.md, "Reduction and normalisation").
namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> layer_norm_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const std::size_t axis = CTXGEN_TRY(axis_param<NormParams>(op, src.size()));
  const Dims normalised(src.span().subspan(axis));
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && in[i].dims != normalised)
      return fail(ErrorCode::kUnsupported, "{}: scale or shift {}, expected {}", label(op),
                  to_string(in[i].dims), to_string(normalised));
  return one_shape(src);
}

Result<ShapeOutputs> group_norm_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const std::int64_t groups = CTXGEN_TRY(decode<GroupNormParams>(op)).groups;
  if (src.size() < 3 || groups < 1 || src[1] % groups != 0)
    return fail(ErrorCode::kInvalidGraph, "{}: {} groups of {}", label(op), groups, to_string(src));
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i].present && in[i].dims != Dims{src[1]})
      return fail(ErrorCode::kInvalidGraph, "{}: scale or shift {}, expected [{}]", label(op),
                  to_string(in[i].dims), src[1]);
  return one_shape(src);
}

Status place_group_norm(Placement& pass, std::uint32_t op) {
  const ProgramOp& norm = pass.program().ops[op];
  const Layout layout = pass.primary_of(norm.inputs[0]);
  std::vector<SlotId> inputs{pass.need(norm.inputs[0], layout, Placement::Density::kDense, op)};
  for (std::size_t i = 1; i < norm.inputs.size(); ++i)
    inputs.push_back(
        norm.inputs[i].kind == Operand::Kind::kNone
            ? kNone
            : pass.need(norm.inputs[i], Layout::kPlain, Placement::Density::kDense, op));
  pass.add_placed(op, layout, std::move(inputs));
  return {};
}

/// Inputs of a node beyond those of its op, and its second output: what was added to the source.
constexpr std::size_t kResidual = 3, kBias = 4, kInputs = 5;

/// Whether the operand of a step after an addition is one row, which the norm can add.
bool is_row(const Placement& pass, const Node& sum, const Dims& dims) {
  if (sum.post_ops.size() != 1 || sum.post_ops[0].post->kind != "add") return false;
  if (sum.post_ops[0].operand == kNone) return false;
  const Slot& operand = pass.slot(sum.post_ops[0].operand);
  return operand.dims == Dims{dims.back()} && operand.strides == Dims{1};
}

/// The node before the norm, if it is the addition that makes the norm's source: both read and write
/// rows of the same memory.
std::optional<Node> sum_before(Placement& pass, std::uint32_t op, std::size_t axis) {
  const Operand& src = pass.program().ops[op].inputs[0];
  if (pass.graph().nodes.empty()) return std::nullopt;
  const Node& last = pass.graph().nodes.back();
  if (last.program_op == nullptr || last.program_op->kind != kind::kBinary ||
      src != Operand::value(last.program_op->outputs[0]))
    return std::nullopt;
  const Dims& dims = pass.dims_of(src);
  const auto dense = [&](SlotId id) {
    return pass.slot(id).dims == dims && pass.is_dense(id, Layout::kPlain);
  };
  const auto params = decode<BinaryParams>(*last.program_op);
  const bool adds = params && params->alg == "add" && dense(last.inputs[0]) &&
                    dense(last.inputs[1]) && dense(last.outputs[0]);
  const bool whole = last.post_ops.empty() || (axis + 1 == dims.size() && is_row(pass, last, dims));
  return adds && whole ? std::optional(last) : std::nullopt;
}

/// A norm after an addition adds itself, in its pass over the rows; the sum is written if anything else
/// reads it.
Status place_norm(Placement& pass, std::uint32_t op) {
  const ProgramOp& norm = pass.program().ops[op];
  const SlotId src = pass.need(norm.inputs[0], Layout::kPlain, Placement::Density::kDense, op);
  std::vector<SlotId> inputs{src, place_vector(pass, op, 1), place_vector(pass, op, 2)};
  const std::size_t axis =
      CTXGEN_TRY(axis_param<NormParams>(norm, pass.dims_of(norm.inputs[0]).size()));
  const auto sum = sum_before(pass, op, axis);
  if (!sum) {
    pass.add_placed(op, Layout::kPlain, std::move(inputs));
    return {};
  }
  const bool needed = !pass.may_overwrite(norm.inputs[0], src, op);
  pass.graph().nodes.pop_back();
  inputs.resize(kInputs, kNone);
  inputs[0] = sum->inputs[0];
  inputs[kResidual] = sum->inputs[1];
  if (!sum->post_ops.empty()) inputs[kBias] = sum->post_ops[0].operand;
  Node& node = pass.add_placed(op, Layout::kPlain, std::move(inputs));
  if (needed) node.outputs.push_back(src);
  return {};
}

Status build_norm(NodeBuilder& builder, std::string name, bool centred) {
  const auto params = CTXGEN_TRY(decode<NormParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(normal_axis(builder.op(), params.axis, src.dims.size()));
  const NormShape shape{.rows = volume(Dims(src.dims.span().first(axis))),
                        .width = volume(src.dims, axis),
                        .epsilon = static_cast<float>(params.epsilon),
                        .centred = centred,
                        .has_scale = builder.has_input(1),
                        .has_shift = builder.has_input(2),
                        .has_residual = builder.has_input(kResidual),
                        .has_bias = builder.has_input(kBias),
                        .has_sum = builder.node().outputs.size() > 1};
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(dst)};
  for (std::size_t i = 1; i < kInputs; ++i)
    if (builder.has_input(i)) args.push_back(builder.slot_arg(builder.input(i)));
  if (shape.has_sum) args.push_back(builder.slot_arg(builder.output(1)));
  builder.add_kernel(std::move(name), make_norm_kernel(shape), std::move(args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

/// oneDNN's kernel, which is faster on many rows of up to kNarrow elements (bench/kernels): what our own
/// does once per row takes longer than the row.
constexpr std::int64_t kNarrow = 128, kManyRows = 64;

Status build_narrow(NodeBuilder& builder, std::int64_t rows, std::int64_t width, float epsilon) {
  using dnnl::memory;
  const Slot& dst = builder.output();
  const memory::desc md = make_md(Dims{rows, width}, plain_strides(Dims{rows, width}));
  const memory::desc vector = make_md(Dims{width}, Dims{1});
  auto flags = dnnl::normalization_flags::none;
  std::vector<Arg> args{builder.slot_arg(DNNL_ARG_SRC, md, builder.input(0)),
                        builder.slot_arg(DNNL_ARG_DST, md, dst)};
  if (builder.has_input(1)) {
    flags = flags | dnnl::normalization_flags::use_scale;
    args.push_back(builder.slot_arg(DNNL_ARG_SCALE, vector, builder.input(1)));
  }
  if (builder.has_input(2)) {
    flags = flags | dnnl::normalization_flags::use_shift;
    args.push_back(builder.slot_arg(DNNL_ARG_SHIFT, vector, builder.input(2)));
  }
  const auto make = [&](const dnnl::primitive_attr& attr) {
    return dnnl::layer_normalization_forward::primitive_desc(
        cpu_engine(), dnnl::prop_kind::forward_inference, md, md, epsilon, flags, attr);
  };
  CTXGEN_CHECK(builder.add_primitive<dnnl::layer_normalization_forward>(make, args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_layer_norm(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<NormParams>(builder.op()));
  const Dims& dims = builder.input(0).dims;
  const std::size_t axis = CTXGEN_TRY(normal_axis(builder.op(), params.axis, dims.size()));
  const std::int64_t rows = volume(Dims(dims.span().first(axis))), width = volume(dims, axis);
  if (width > 1 && width <= kNarrow && rows >= kManyRows && !builder.has_input(kResidual))
    return build_narrow(builder, rows, width, static_cast<float>(params.epsilon));
  return build_norm(builder, "loop:layer_norm", true);
}

Status build_rms_norm(NodeBuilder& builder) { return build_norm(builder, "loop:rms_norm", false); }

/// The first post-ops, as far as they need no operand.
std::vector<PointStage> leading_stages(std::span<const NodePostOp> post_ops) {
  std::vector<PointStage> stages;
  for (const NodePostOp& stage : post_ops) {
    const auto point = stage.operand == kNone ? point_op(stage.post->kind, false) : std::nullopt;
    if (!point || takes_operand(*point)) break;
    stages.push_back({*point, stage.post->alpha, stage.post->beta, {}});
  }
  return stages;
}

Status build_group_norm(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<GroupNormParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const GroupNormShape shape{.images = src.dims[0],
                             .channels = src.dims[1],
                             .pixels = volume(src.dims, 2),
                             .groups = params.groups,
                             .epsilon = static_cast<float>(params.epsilon),
                             .channels_last = !is_layout(src.dims, src.strides, Layout::kPlain),
                             .has_scale = builder.has_input(1),
                             .has_shift = builder.has_input(2)};
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(dst)};
  for (std::size_t i = 1; i <= 2; ++i)
    if (builder.has_input(i)) args.push_back(builder.slot_arg(builder.input(i)));
  const std::span<const NodePostOp> post_ops = builder.node().post_ops;
  std::vector<PointStage> stages = leading_stages(post_ops);
  const std::size_t taken = stages.size();
  if (shape.scratch_bytes() > 0) args.push_back(scratch_arg());
  builder.add_kernel("loop:group_norm", make_group_norm_kernel(shape, std::move(stages)),
                     std::move(args), {.scratch_bytes = shape.scratch_bytes()});
  return builder.add_chain(dst, dst, post_ops.subspan(taken));
}

}  // namespace

constinit const KindRow kLayerNormRow{
    .name = kind::kLayerNorm,
    .number = 9,
    .inputs = {1, 3},
    .traits = {.keeps_dims = true, .absorbs_eltwise = true},
    .types = check_f32_types,
    .shape = layer_norm_shape,
    .place = place_norm,
    .build = build_layer_norm,
};

constinit const KindRow kRmsNormRow{
    .name = kind::kRmsNorm,
    .number = 32,
    .inputs = {2, 2},
    .types = check_f32_types,
    .shape = layer_norm_shape,
    .place = place_norm,
    .build = build_rms_norm,
};

constinit const KindRow kGroupNormRow{
    .name = kind::kGroupNorm,
    .number = 33,
    .inputs = {1, 3},
    .traits = {.keeps_dims = true, .absorbs_eltwise = true},
    .types = check_f32_types,
    .shape = group_norm_shape,
    .place = place_group_norm,
    .build = build_group_norm,
};

}  // namespace ctxgen::onednn
