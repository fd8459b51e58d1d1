#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels_reduce.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// layer_norm runs in oneDNN; rms_norm and group_norm, which have no fast kernel there for every
// shape, in own loops (docs/onednn.md, "Reduction and normalisation").
namespace ctxgen::onednn {

namespace {

using dnnl::memory;

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

Status build_layer_norm(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<NormParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(normal_axis(builder.op(), params.axis, src.dims.size()));
  const auto epsilon = static_cast<float>(params.epsilon);
  const Dims dims{volume(Dims(src.dims.span().first(axis))), volume(src.dims, axis)};
  const memory::desc md = make_md(dims, plain_strides(dims));
  const memory::desc vector = make_md(Dims{dims[1]}, Dims{1});
  auto flags = dnnl::normalization_flags::none;
  std::vector<Arg> args{builder.slot_arg(DNNL_ARG_SRC, md, src),
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

Status build_rms_norm(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<NormParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const std::size_t axis = CTXGEN_TRY(normal_axis(builder.op(), params.axis, src.dims.size()));
  const auto epsilon = static_cast<float>(params.epsilon);
  const std::int64_t rows = volume(Dims(src.dims.span().first(axis)));
  builder.add_kernel(
      "loop:rms_norm", make_rms_kernel(rows, volume(src.dims, axis), epsilon),
      {builder.slot_arg(src), builder.slot_arg(builder.input(1)), builder.slot_arg(dst)});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

Status build_group_norm(NodeBuilder& builder) {
  const auto params = CTXGEN_TRY(decode<GroupNormParams>(builder.op()));
  const Slot& src = builder.input(0);
  const Slot& dst = builder.output();
  const auto epsilon = static_cast<float>(params.epsilon);
  const GroupNormShape shape{.images = src.dims[0],
                             .channels = src.dims[1],
                             .pixels = volume(src.dims, 2),
                             .groups = params.groups,
                             .channels_last = !is_layout(src.dims, src.strides, Layout::kPlain)};
  std::vector<Arg> args{builder.slot_arg(src), builder.slot_arg(dst)};
  for (std::size_t i = 1; i <= 2; ++i)
    if (builder.has_input(i)) args.push_back(builder.slot_arg(builder.input(i)));
  builder.add_kernel(
      "loop:group_norm",
      make_group_norm_kernel(shape, epsilon, builder.has_input(1), builder.has_input(2)),
      std::move(args));
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kLayerNormRow{
    .name = kind::kLayerNorm,
    .number = 9,
    .inputs = {1, 3},
    .traits = {.keeps_dims = true, .absorbs_eltwise = true},
    .types = check_f32_types,
    .shape = layer_norm_shape,
    .place = place_plain,
    .build = build_layer_norm,
};

constinit const KindRow kRmsNormRow{
    .name = kind::kRmsNorm,
    .number = 32,
    .inputs = {2, 2},
    .types = check_f32_types,
    .shape = layer_norm_shape,
    .place = place_plain,
    .build = build_rms_norm,
};

constinit const KindRow kGroupNormRow{
    .name = kind::kGroupNorm,
    .number = 33,
    .inputs = {1, 3},
    .types = check_f32_types,
    .shape = group_norm_shape,
    .place = place_group_norm,
    .build = build_group_norm,
};

}  // namespace ctxgen::onednn
