#include "rules/placement_rules.h"

#include <algorithm>

#include "plan/params.h"

namespace ctxgen::onednn {

SlotId place_vector(Placement& pass, std::uint32_t op, std::size_t input) {
  const SmallList<Operand>& inputs = pass.program().ops[op].inputs;
  if (input >= inputs.size() || inputs[input].kind == Operand::Kind::kNone) return kNone;
  return pass.need(inputs[input], Layout::kPlain, Placement::Density::kDense, op);
}

Layout joint_layout(const Placement& pass, std::uint32_t op) {
  const Dims& out = pass.dims(pass.program().ops[op].outputs[0]);
  const bool last = std::ranges::any_of(pass.program().ops[op].inputs, [&](const Operand& operand) {
    return pass.dims_of(operand) == out && pass.primary_of(operand) == Layout::kChannelsLast;
  });
  return last ? Layout::kChannelsLast : Layout::kPlain;
}

Status place_spatial(Placement& pass, std::uint32_t op) {
  const SlotId src = pass.need(pass.program().ops[op].inputs[0], Layout::kChannelsLast,
                               Placement::Density::kDense, op);
  pass.add_placed(op, Layout::kChannelsLast, {src});
  return {};
}

Status place_conv(Placement& pass, std::uint32_t op) {
  const ProgramOp& conv = pass.program().ops[op];
  if (conv.inputs[1].kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: weights must be constant", label(conv));
  const SlotId src =
      pass.need(conv.inputs[0], Layout::kChannelsLast, Placement::Density::kDense, op);
  const SlotId bias = place_vector(pass, op, 2), scales = place_vector(pass, op, 3);
  Node& node = pass.add_product(op, Layout::kChannelsLast, {src, kNone, bias, scales});
  node.packed_weight = conv.inputs[1].index;
  return {};
}

Status place_computed_conv(Placement& pass, std::uint32_t op) {
  const ProgramOp& conv = pass.program().ops[op];
  const SlotId src =
      pass.need(conv.inputs[0], Layout::kChannelsLast, Placement::Density::kDense, op);
  const SlotId weights = place_vector(pass, op, 1), bias = place_vector(pass, op, 2);
  pass.add_product(op, Layout::kChannelsLast, {src, weights, bias});
  return {};
}

Status place_dense(Placement& pass, std::uint32_t op) {
  const ProgramOp& given = pass.program().ops[op];
  std::vector<SlotId> inputs, outputs;
  for (const Operand& operand : given.inputs)
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : pass.need(operand, Layout::kPlain, Placement::Density::kDense, op));
  for (const std::uint32_t value : given.outputs) {
    outputs.push_back(
        pass.new_slot(pass.dims(value), Layout::kPlain, pass.program().values[value].type));
    pass.set_value(value, Layout::kPlain, outputs.back());
  }
  Node& node = pass.add_node(op);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return {};
}

Status place_plain(Placement& pass, std::uint32_t op) {
  std::vector<SlotId> inputs;
  for (const Operand& operand : pass.program().ops[op].inputs)
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : pass.need(operand, Layout::kPlain, Placement::Density::kDense, op));
  pass.add_placed(op, Layout::kPlain, std::move(inputs));
  return {};
}

namespace {

Status place_over_source(Placement& pass, std::uint32_t op, Placement::Density density) {
  const ProgramOp& eltwise = pass.program().ops[op];
  const Layout layout = pass.primary_of(eltwise.inputs[0]);
  std::vector<SlotId> inputs{pass.need(eltwise.inputs[0], layout, density, op)};
  for (std::size_t i = 1; i < eltwise.inputs.size(); ++i)
    inputs.push_back(pass.need(eltwise.inputs[i], Layout::kPlain, Placement::Density::kDense, op));
  const bool reuse =
      pass.is_dense(inputs[0], layout) && pass.may_overwrite(eltwise.inputs[0], inputs[0], op);
  const SlotId over = reuse ? inputs[0] : kNone;
  pass.add_placed(op, layout, std::move(inputs), over);
  return {};
}

}  // namespace

Status place_eltwise(Placement& pass, std::uint32_t op) {
  return place_over_source(pass, op, Placement::Density::kDense);
}

Status place_walking(Placement& pass, std::uint32_t op) {
  return place_over_source(pass, op, Placement::Density::kStrided);
}

Status place_index(Placement& pass, std::uint32_t op) {
  const ProgramOp& program_op = pass.program().ops[op];
  const Operand& operand = program_op.inputs[0];
  const Layout from = pass.primary_of(operand);
  const SlotId src = pass.need(operand, from, Placement::Density::kStrided, op);
  const bool keeps = pass.dims_of(operand).size() == pass.dims(program_op.outputs[0]).size();
  const Layout layout = keeps ? from : Layout::kPlain;
  pass.add_placed(op, layout, {src});
  return {};
}

}  // namespace ctxgen::onednn
