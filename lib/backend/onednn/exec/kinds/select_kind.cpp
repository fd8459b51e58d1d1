#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "plan/builder_fused.h"
#include "plan/shapes.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> select_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims both = CTXGEN_TRY(broadcast_dims(op, in[1].dims, in[2].dims));
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, both)));
}

Status check_select_types(const Program& program, const ProgramOp& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    CTXGEN_CHECK(
        expect_type(program, op, op.inputs[i], {i == 0 ? DataType::kBool : DataType::kFloat}));
  return expect_type(program, op, Operand::value(op.outputs[0]), {DataType::kFloat});
}

/// The loop reads operands in place and may write over one that it reads at the same places.
Status place_select(Placement& pass, std::uint32_t op) {
  const ProgramOp& select = pass.program().ops[op];
  const Dims& out = pass.dims(select.outputs[0]);
  const Layout layout = joint_layout(pass, op);
  std::vector<SlotId> inputs;
  SlotId reuse = kNone;
  for (const Operand& operand : select.inputs) {
    const bool full = pass.dims_of(operand) == out;
    inputs.push_back(pass.need(operand, full ? layout : pass.primary_of(operand),
                               Placement::Density::kStrided, op));
    if (full && reuse == kNone && pass.is_dense(inputs.back(), layout) &&
        pass.may_overwrite(operand, inputs.back(), op))
      reuse = inputs.back();
  }
  pass.add_placed(op, layout, std::move(inputs), reuse);
  return {};
}

/// An own loop: oneDNN's select reads a broadcast condition with its reference kernel only.
Status build_select(NodeBuilder& builder) {
  const Slot& dst = builder.output();
  const auto strides = [&](std::size_t i) { return broadcast_strides(builder.input(i), dst.dims); };
  const auto arg = [&](const Slot& slot) { return builder.slot_arg(slot); };
  builder.add_kernel(
      "loop:select", make_select_kernel(dst.dims, strides(0), strides(1), strides(2), dst.strides),
      {arg(builder.input(0)), arg(builder.input(1)), arg(builder.input(2)), arg(dst)});
  return {};
}

}  // namespace

constinit const KindRow kSelectRow{
    .name = kind::kSelect,
    .number = 28,
    .inputs = {3, 3},
    .traits = {.post_ops = false, .exact = true},
    .types = check_select_types,
    .shape = select_shape,
    .place = place_select,
    .build = build_select,
};

}  // namespace ctxgen::onednn
