#include <algorithm>
#include <numeric>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

constexpr std::pair<std::string_view, std::string_view> kModes[] = {
    {"ReduceL1", "l1"},          {"ReduceL2", "l2"},
    {"ReduceLogSum", "log_sum"}, {"ReduceLogSumExp", "log_sum_exp"},
    {"ReduceMax", "max"},        {"ReduceMean", "mean"},
    {"ReduceMin", "min"},        {"ReduceProd", "prod"},
    {"ReduceSum", "sum"},        {"ReduceSumSquare", "sum_square"},
};

/// The axes to reduce; from opset 13 (ReduceSum) or 18 on they are an input.
Read<std::vector<std::int64_t>> read_axes(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Node& node = n.node();
  const bool as_input = node.opset >= (node.op_type == "ReduceSum" ? 13 : 18);
  std::vector<std::int64_t> axes;
  if (as_input) {
    if (n.has_input(1)) axes = CTXGEN_TRY(constant_ints(n, 1, "axes input"));
  } else if (const auto given = node.ints("axes")) {
    axes = list_of(*given);
  }
  if (axes.empty() && node.int_or("noop_with_empty_axes", 0) != 0) {
    return refuse("noop_with_empty_axes without axes");
  }
  if (axes.empty()) {
    axes.resize(n.rank(0));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (std::int64_t& axis : axes) axis = CTXGEN_TRY(axis_of(axis, n.rank(0)));
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end()) return refuse("axes has a duplicate");
  return axes;
}

}  // namespace

Refusal check_reduce(const NodeView& n) { return refusal_of(read_axes(n)); }

Status lower_reduce(const NodeView& n, ProgramBuilder& builder) {
  std::vector<std::int64_t> axes = CTXGEN_TRY(accepted(read_axes(n), n));
  const auto* mode = std::ranges::find(kModes, n.node().op_type.view(),
                                       &std::pair<std::string_view, std::string_view>::first);
  CTXGEN_ASSERT(mode != std::end(kModes));
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  // Means over all pixels are global pools, which run where their convolutions leave them.
  const bool pixels = axes.size() == 2 && axes[0] == 2 && axes[1] == 3 && n.rank(0) == 4;
  if (mode->second == "mean" && pixels && n.node().int_or("keepdims", 1) != 0) {
    ProgramOp pool = builder.op(kind::kGlobalPool, n);
    encode(GlobalPoolParams{.mode = "avg"}, pool);
    builder.add(std::move(pool), {src}, result);
    return {};
  }
  ProgramOp op = builder.op(kind::kReduce, n);
  encode(ReduceParams{.mode = std::string(mode->second),
                      .axes = std::move(axes),
                      .keepdims = n.node().int_or("keepdims", 1) != 0},
         op);
  builder.add(std::move(op), {src}, result);
  return {};
}

}  // namespace ctxgen::onednn
