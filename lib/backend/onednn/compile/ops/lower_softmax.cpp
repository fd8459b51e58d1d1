#include <algorithm>
#include <optional>

#include "ctxgen/base/checked.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

Read<std::int64_t> read_axis(const NodeView& n, std::int64_t otherwise) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  return axis_of(n.node().int_or("axis", otherwise), n.rank(0));
}

void add_softmax(const NodeView& n, std::int64_t axis, Operand src, std::uint32_t result,
                 ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kSoftmax, n);
  encode(SoftmaxParams{.axis = axis, .log = n.node().op_type == "LogSoftmax"}, op);
  builder.add(std::move(op), {src}, result);
}

/// Opsets 1 to 12 take the softmax over all dims from `axis` on, as if they were one.
struct Flattened {
  std::int64_t axis = 0;               // of the one dim that is not 1, if single
  bool single = false;                 // equal to a softmax over one axis
  std::vector<std::int64_t> restored;  // else: the shape parameter that undoes the flattening
};

Read<Flattened> read_flattened(const NodeView& n) {
  Flattened flattened{.axis = CTXGEN_TRY(read_axis(n, 1)), .single = false, .restored = {}};
  const std::vector<Dim> dims = n.input_dims(0);
  const auto begin = static_cast<std::size_t>(flattened.axis);
  std::vector<std::size_t> wide;
  for (std::size_t i = begin; i < dims.size(); ++i) {
    if (dims[i] != Dim::fixed(1)) wide.push_back(i);
  }
  if (wide.size() <= 1) {
    flattened.single = true;
    if (!wide.empty()) flattened.axis = static_cast<std::int64_t>(wide[0]);
    return flattened;
  }
  flattened.restored.assign(begin, 0);
  bool open = false;
  for (std::size_t i = begin; i < dims.size(); ++i) {
    if (!dims[i].is_fixed() && open) return refuse("flattens several dims of unknown size");
    open = open || !dims[i].is_fixed();
    flattened.restored.push_back(dims[i].is_fixed() ? dims[i].value() : -1);
  }
  return flattened;
}

std::uint32_t add_reshape(const NodeView& n, std::vector<std::int64_t> shape, Operand src,
                          std::uint32_t result, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kReshape, n);
  encode(ReshapeParams{.shape = std::move(shape)}, op);
  builder.add(std::move(op), {src}, result);
  return result;
}

}  // namespace

Refusal check_softmax(const NodeView& n) { return refusal_of(read_axis(n, -1)); }

Status lower_softmax(const NodeView& n, ProgramBuilder& builder) {
  const std::int64_t axis = CTXGEN_TRY(accepted(read_axis(n, -1), n));
  add_softmax(n, axis, builder.operand(n.input(0)), builder.value(n.output(0)), builder);
  return {};
}

Refusal check_softmax_flattened(const NodeView& n) { return refusal_of(read_flattened(n)); }

Status lower_softmax_flattened(const NodeView& n, ProgramBuilder& builder) {
  const Flattened flattened = CTXGEN_TRY(accepted(read_flattened(n), n));
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  if (flattened.single) {
    add_softmax(n, flattened.axis, src, result, builder);
    return {};
  }
  const auto begin = static_cast<std::size_t>(flattened.axis);
  std::vector<Dim> dims = n.input_dims(0);
  std::vector<ProgramDim> flat_dims = builder.dims(std::span(dims).first(begin));
  std::optional<std::uint64_t> tail = 1;
  for (const Dim& dim : std::span(dims).subspan(begin)) {
    tail = tail && dim.is_fixed() ? checked_mul(*tail, static_cast<std::uint64_t>(dim.value()))
                                  : std::nullopt;
  }
  flat_dims.push_back(tail ? ProgramDim{.value = static_cast<std::int64_t>(*tail)} : ProgramDim{});
  std::vector<std::int64_t> flat_shape(begin, 0);
  flat_shape.push_back(-1);
  const std::string& name = n.output_value(0).name;
  const std::uint32_t flat = add_reshape(n, std::move(flat_shape), src,
                                         builder.temporary(name + "/flat", flat_dims), builder);
  const std::uint32_t soft = builder.temporary(name + "/soft", flat_dims);
  add_softmax(n, flattened.axis, Operand::value(flat), soft, builder);
  add_reshape(n, flattened.restored, Operand::value(soft), result, builder);
  return {};
}

}  // namespace ctxgen::onednn
