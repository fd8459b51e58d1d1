#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

// InstanceNormalization, GroupNormalization, RMSNormalization.
namespace ctxgen::onednn {

namespace {

struct GroupNormAttributes {
  std::int64_t groups = 1;
  bool per_group = false;  // scale and bias have one value per group (opsets 18 to 20)
};

Refusal check_vector(const NodeView& n, std::size_t i, std::string_view what, const Dim& length) {
  if (!n.has_input(i)) return std::format("{} is absent", what);
  const std::vector<Dim> dims = n.input_dims(i);
  if (dims.size() == 1 && dims[0] == length && !(length == Dim{})) return std::nullopt;
  return std::format("{} must be a list of one number per channel or group", what);
}

Read<GroupNormAttributes> read_group_norm(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1, 2})) return std::unexpected(*refusal);
  if (n.constant(0) != nullptr) return refuse("input is constant");
  if (n.rank(0) < 3) return refuse("rank {}, expected 3 or more", n.rank(0));
  const Dim channels = n.input_dims(0)[1];
  if (!channels.is_fixed()) return refuse("number of channels is unknown");
  GroupNormAttributes params{.groups = channels.value()};
  if (n.node().op_type == "GroupNormalization") {
    params.groups = n.node().int_or("num_groups", 0);
    params.per_group = n.node().opset < 21;
    if (n.node().int_or("stash_type", 1) != 1) return refuse("stash_type is not float32");
  }
  if (params.groups < 1 || channels.value() % params.groups != 0) {
    return refuse("{} groups of {} channels", params.groups, channels.value());
  }
  const Dim length = params.per_group ? Dim::fixed(params.groups) : channels;
  for (const std::size_t i : {1, 2}) {
    const std::string_view what = i == 1 ? "scale" : "bias";
    CTXGEN_REFUSE(check_vector(n, i, what, length));
    if (params.per_group && n.constant(i) == nullptr) return refuse("{} is not constant", what);
    if (params.per_group && n.input_dims(0)[1].value() > kMostSpread)
      return refuse("{} channels", n.input_dims(0)[1].value());
  }
  return params;
}

/// One value per channel from one per group.
Result<Operand> spread(const NodeView& n, std::size_t i, const GroupNormAttributes& params,
                       ProgramBuilder& builder) {
  if (!params.per_group) return builder.operand(n.input(i));
  const std::vector<float> given = floats_of(*n.constant(i));
  const std::int64_t channels = n.input_dims(0)[1].value();
  std::vector<float> values;
  for (std::int64_t c = 0; c < channels; ++c)
    values.push_back(given[static_cast<std::size_t>(c / (channels / params.groups))]);
  return builder.weight(n.input_value(i).name + "/spread",
                        CTXGEN_TRY(tensor_of(Dims{channels}, values)));
}

Read<std::int64_t> read_rms_norm(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return std::unexpected(*refusal);
  CTXGEN_REFUSE(require_one_output(n));
  if (n.constant(0) != nullptr) return refuse("input is constant");
  if (n.node().int_or("stash_type", 1) != 1) return refuse("stash_type is not float32");
  const std::int64_t axis = CTXGEN_TRY(axis_of(n.node().int_or("axis", -1), n.rank(0)));
  if (Refusal refusal = require_same_tail(n, 1, "scale", static_cast<std::size_t>(axis))) {
    return std::unexpected(*refusal);
  }
  return axis;
}

}  // namespace

Refusal check_group_norm(const NodeView& n) { return refusal_of(read_group_norm(n)); }

Status lower_group_norm(const NodeView& n, ProgramBuilder& builder) {
  const GroupNormAttributes params = CTXGEN_TRY(accepted(read_group_norm(n), n));
  const Operand scale = CTXGEN_TRY(spread(n, 1, params, builder));
  const Operand shift = CTXGEN_TRY(spread(n, 2, params, builder));
  ProgramOp op = builder.op(kind::kGroupNorm, n);
  encode(GroupNormParams{.groups = params.groups,
                         .epsilon = double{n.node().float_or("epsilon", 1e-5F)}},
         op);
  builder.add(std::move(op), {builder.operand(n.input(0)), scale, shift},
              builder.value(n.output(0)));
  return {};
}

Refusal check_rms_norm(const NodeView& n) { return refusal_of(read_rms_norm(n)); }

Status lower_rms_norm(const NodeView& n, ProgramBuilder& builder) {
  const std::int64_t axis = CTXGEN_TRY(accepted(read_rms_norm(n), n));
  ProgramOp op = builder.op(kind::kRmsNorm, n);
  encode(NormParams{.axis = axis, .epsilon = double{n.node().float_or("epsilon", 1e-5F)}}, op);
  builder.add(std::move(op), {builder.operand(n.input(0)), builder.operand(n.input(1))},
              builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
