#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/builder.h"
#include "plan/params.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> concat_shape(const ProgramOp& op, ShapeInputs in) {
  Dims out = in[0].dims;
  const std::size_t axis = CTXGEN_TRY(axis_param<ConcatParams>(op, out.size()));
  for (const ShapeInput& input : in.subspan(1)) {
    bool fits = input.present && input.dims.size() == out.size();
    for (std::size_t i = 0; fits && i < out.size(); ++i)
      fits = i == axis || input.dims[i] == out[i];
    if (!fits)
      return fail(ErrorCode::kInvalidGraph, "{}: input {} does not fit {} on axis {}", label(op),
                  to_string(input.dims), to_string(in[0].dims), axis);
    out[axis] += input.dims[axis];
    if (out[axis] > static_cast<std::int64_t>(kMaxTensorBytes))
      return fail(ErrorCode::kResourceLimit, "{}: axis {} grows to {}", label(op), axis, out[axis]);
  }
  return one_shape(out);
}

/// All inputs of the result's type.
Status check_concat_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(check_movable_types(program, op));
  const DataType type = operand_type(program, op.inputs[0]);
  for (const Operand& operand : op.inputs) CTXGEN_CHECK(expect_type(program, op, operand, {type}));
  return {};
}

Status place_concat(Placement& pass, std::uint32_t op) {
  const ProgramOp& concat = pass.program().ops[op];
  const Dims& out = pass.dims(concat.outputs[0]);
  const std::size_t axis = CTXGEN_TRY(axis_param<ConcatParams>(concat, out.size()));
  const std::uint32_t host_op =
      pass.concat_place(op).host == kNone ? op : pass.concat_place(op).host;
  ConcatPlace& host = pass.concat_place(host_op);
  bool in_chain = host.slot != kNone || host_op != op;
  Layout layout = in_chain ? Layout::kChannelsLast : Layout::kPlain;
  for (const Operand& operand : concat.inputs)
    if (pass.primary_of(operand) == Layout::kChannelsLast) layout = Layout::kChannelsLast;
  Node placed;
  pass.place_post_operands(placed, op, layout);
  if (in_chain && host.slot == kNone) {
    const std::uint32_t whole = pass.program().ops[host_op].outputs[0];
    host.slot = pass.new_slot(pass.dims(whole), layout, pass.program().values[whole].type);
    pass.graph().buffers[pass.graph().slots[host.slot].buffer].shared = true;
  }
  SlotId dst = kNone;
  if (in_chain) {
    Slot prefix = pass.graph().slots[host.slot];
    prefix.dims = out;
    dst = pass.add_slot(prefix);
    pass.set_value(concat.outputs[0], layout, dst);
  } else {
    dst = pass.output_slot(op, layout, kNone);
  }
  std::int64_t at = 0;
  for (const Operand& operand : concat.inputs) {
    // A view is copied as it is: in another layout first would be a copy more.
    const bool view = operand.kind == Operand::Kind::kValue &&
                      pass.read_by_moves_only(operand.index) && !pass.has_dense(operand.index);
    const SlotId src = pass.need(operand, view ? pass.primary_of(operand) : layout,
                                 Placement::Density::kStrided, op);
    Slot part = pass.graph().slots[dst];
    part.dims = pass.dims_of(operand);
    part.offset += at * part.strides[axis];
    at += part.dims[axis];
    // What an earlier concat of the chain has written is at the same channels already.
    if (in_chain && at <= host.filled_to) continue;
    Node copy;
    copy.op = op;
    copy.inputs = {src};
    copy.outputs = {pass.add_slot(part)};
    pass.graph().nodes.push_back(std::move(copy));
  }
  if (in_chain) host.filled_to = std::max(host.filled_to, at);
  if (placed.post_ops.empty()) return {};
  // Post-ops of a concat run over the finished tensor in place.
  Node& node = pass.add_node(op);
  node.inputs = {dst};
  node.outputs = {dst};
  node.post_ops = std::move(placed.post_ops);
  return {};
}

/// The parts are copies; post-ops run over the finished tensor in place.
Status build_concat_tail(NodeBuilder& builder) {
  return builder.add_chain(builder.input(0), builder.output(), builder.node().post_ops);
}

}  // namespace

constinit const KindRow kConcatRow{
    .name = kind::kConcat,
    .number = 11,
    .inputs = {1, kManyInputs},
    .traits = {.concatenates = true,
               .takes_empty = true,
               .exact = true,
               .reads_growing_concat = true,
               .reads_views = true},
    .types = check_concat_types,
    .shape = concat_shape,
    .place = place_concat,
    .build = build_concat_tail,
};

}  // namespace ctxgen::onednn
