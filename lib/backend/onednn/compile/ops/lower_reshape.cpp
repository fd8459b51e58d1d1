#include <algorithm>
#include <array>

#include "ctxgen/onednn/op_kinds.h"

#include "../dim_chains.h"
#include "../dim_list.h"
#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

/// Numbers that older versions take as an attribute and newer ones as an input.
Read<std::vector<std::int64_t>> attribute_or_input(const NodeView& n, std::int64_t input_since,
                                                   std::string_view attribute,
                                                   std::string_view what) {
  if (n.node().opset >= input_since) {
    if (!n.has_input(1)) return std::vector<std::int64_t>{};
    return constant_ints(n, 1, what);
  }
  const auto given = n.node().ints(attribute);
  return given ? list_of(*given) : std::vector<std::int64_t>{};
}

Read<std::vector<std::int64_t>> read_shape(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  if (n.node().opset >= 5 && !n.has_input(1)) return refuse("shape input is absent");
  std::vector<std::int64_t> shape = CTXGEN_TRY(attribute_or_input(n, 5, "shape", "shape input"));
  if (shape.empty()) return refuse("shape is that of a scalar");
  if (shape.size() > kMaxRank) return refuse("shape has rank {}", shape.size());
  if (std::ranges::count(shape, -1) > 1) return refuse("shape holds -1 more than once");
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < -1) return refuse("shape holds {}", shape[i]);
    if (shape[i] != 0) continue;
    if (n.node().int_or("allowzero", 0) != 0) return refuse("shape holds a dimension of 0");
    if (i >= n.rank(0)) return refuse("shape copies dim {} of rank {}", i, n.rank(0));
  }
  return shape;
}

/// Squeeze without axes drops every dim of 1: which ones must not depend on the run.
Read<std::vector<std::int64_t>> axes_of_size_one(const NodeView& n) {
  std::vector<std::int64_t> axes;
  const std::vector<Dim> dims = n.input_dims(0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i].is_fixed()) return refuse("axes are absent and dim {} is unknown", i);
    if (dims[i].value() == 1) axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

Read<std::vector<std::int64_t>> read_axes(const NodeView& n, bool unsqueeze) {
  CTXGEN_REFUSE(require_movable(n));
  std::vector<std::int64_t> axes = CTXGEN_TRY(attribute_or_input(n, 13, "axes", "axes input"));
  if (unsqueeze && axes.empty()) return refuse("axes are absent");
  if (axes.empty()) axes = CTXGEN_TRY(axes_of_size_one(n));
  const std::size_t rank = n.rank(0) + (unsqueeze ? axes.size() : 0);
  if (rank > kMaxRank) return refuse("output has rank {}", rank);
  for (std::int64_t& axis : axes) {
    axis = CTXGEN_TRY(axis_of(axis, rank));
    if (!unsqueeze) {
      const Dim dim = n.input_dims(0)[static_cast<std::size_t>(axis)];
      if (dim.is_fixed() && dim.value() != 1) return refuse("dim {} is {}", axis, dim.value());
    }
  }
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) return refuse("axes has a duplicate");
  return axes;
}

Status lower_axes(const NodeView& n, ProgramBuilder& builder, std::string_view kind,
                  bool unsqueeze) {
  std::vector<std::int64_t> axes = CTXGEN_TRY(accepted(read_axes(n, unsqueeze), n));
  ProgramOp op = builder.op(kind, n);
  encode(AxesParams{std::move(axes)}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Read<std::int64_t> read_flatten(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  return axis_of(n.node().int_or("axis", 1), n.rank(0), true);
}

}  // namespace

namespace {

Read<DimLists> read_shape_code(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  DimLists lists = CTXGEN_TRY(read_dim_lists(n, std::array<std::size_t, 1>{1}));
  const std::size_t rank = lists.lists[0].count;
  if (rank == 0) return refuse("shape is that of a scalar");
  if (rank > kMaxRank) return refuse("shape has rank {}", rank);
  if (n.node().int_or("allowzero", 0) != 0) return refuse("shape may hold a dimension of 0");
  return lists;
}

/// The shape is known when a plan is made: sizes of other tensors.
Status lower_sized_reshape(const NodeView& n, ProgramBuilder& builder) {
  const DimLists lists = CTXGEN_TRY(accepted(read_shape_code(n), n));
  ProgramOp op = builder.op(kind::kReshape, n);
  encode(ReshapeParams{}, op);
  add_list(op, "shape", lists.lists[0]);
  std::vector<Operand> inputs{builder.operand(n.input(0))};
  add_sized(op, lists, builder, inputs);
  builder.add(std::move(op), inputs, builder.value(n.output(0)));
  return {};
}

}  // namespace

Refusal check_reshape(const NodeView& n) {
  if (reads_dims(n.view(), n.node())) return refusal_of(read_shape_code(n));
  return refusal_of(read_shape(n));
}

Status lower_reshape(const NodeView& n, ProgramBuilder& builder) {
  if (reads_dims(n.view(), n.node())) return lower_sized_reshape(n, builder);
  std::vector<std::int64_t> shape = CTXGEN_TRY(accepted(read_shape(n), n));
  ProgramOp op = builder.op(kind::kReshape, n);
  encode(ReshapeParams{.shape = std::move(shape)}, op);  // a 0 that is not a copy was refused
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_flatten(const NodeView& n) { return refusal_of(read_flatten(n)); }

Status lower_flatten(const NodeView& n, ProgramBuilder& builder) {
  const std::int64_t axis = CTXGEN_TRY(accepted(read_flatten(n), n));
  ProgramOp op = builder.op(kind::kFlatten, n);
  encode(FlattenParams{axis}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_squeeze(const NodeView& n) { return refusal_of(read_axes(n, false)); }
Status lower_squeeze(const NodeView& n, ProgramBuilder& builder) {
  return lower_axes(n, builder, kind::kSqueeze, false);
}

Refusal check_unsqueeze(const NodeView& n) { return refusal_of(read_axes(n, true)); }
Status lower_unsqueeze(const NodeView& n, ProgramBuilder& builder) {
  return lower_axes(n, builder, kind::kUnsqueeze, true);
}

Refusal check_identity(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  if (n.constant(0) != nullptr) return "input is constant";
  return std::nullopt;
}

Status lower_identity(const NodeView& n, ProgramBuilder& builder) {
  builder.add(builder.op(kind::kIdentity, n), {builder.operand(n.input(0))},
              builder.value(n.output(0)));
  return {};
}

/// Dropout passes its input through unless it trains; `ratio` and `seed` then have no effect.
Refusal check_dropout(const NodeView& n) {
  const Node& node = n.node();
  if (node.opset < 7 && node.int_or("is_test", 0) == 0) return "training mode (is_test=0)";
  if (n.has_input(2)) {
    const Tensor* training = n.constant(2);
    if (training == nullptr) return "training_mode is not constant";
    const bool off = training->element_count() == 1 && bits_of(training->type()) == 8 &&
                     training->bytes()[0] == std::byte{0};
    if (!off) return "training mode";
  }
  CTXGEN_REFUSE(require_one_output(n));
  return check_identity(n);
}

}  // namespace ctxgen::onednn
