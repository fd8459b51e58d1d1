// Slice whose bounds are sizes of tensors: known when a plan is made.
#include <algorithm>
#include <array>
#include <numeric>

#include "ctxgen/onednn/op_kinds.h"

#include "../../dim_list.h"
#include "../../op_row.h"
#include "../ops.h"

namespace ctxgen::onednn {

namespace {

struct SizedSlice {
  DimLists bounds;  // starts, ends
  std::vector<std::int64_t> axes, steps;
};

Read<SizedSlice> read_sized_slice(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  SizedSlice slice;
  slice.bounds = CTXGEN_TRY(read_dim_lists(n, std::array<std::size_t, 2>{1, 2}));
  const std::size_t count = slice.bounds.lists[0].count;
  slice.axes.resize(count);
  std::iota(slice.axes.begin(), slice.axes.end(), 0);
  slice.steps.assign(count, 1);
  if (n.has_input(3)) slice.axes = CTXGEN_TRY(constant_ints(n, 3, "axes input"));
  if (n.has_input(4)) slice.steps = CTXGEN_TRY(constant_ints(n, 4, "steps input"));
  if (slice.bounds.lists[1].count != count || slice.axes.size() != count ||
      slice.steps.size() != count)
    return refuse("starts, ends, axes and steps differ in length");
  for (std::int64_t& axis : slice.axes) axis = CTXGEN_TRY(axis_of(axis, n.rank(0)));
  std::vector<std::int64_t> sorted = slice.axes;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return refuse("axes has a duplicate");
  for (const std::int64_t step : slice.steps)
    if (step < 1) return refuse("step {}, expected 1 or more", step);
  return slice;
}

}  // namespace

Refusal check_sized_slice(const NodeView& n) { return refusal_of(read_sized_slice(n)); }

Status lower_sized_slice(const NodeView& n, ProgramBuilder& builder) {
  const SizedSlice slice = CTXGEN_TRY(accepted(read_sized_slice(n), n));
  ProgramOp op = builder.op(kind::kSlice, n);
  encode(SliceParams{.starts = {}, .ends = {}, .axes = slice.axes, .steps = slice.steps}, op);
  add_list(op, "starts", slice.bounds.lists[0]);
  add_list(op, "ends", slice.bounds.lists[1]);
  std::vector<Operand> inputs{builder.operand(n.input(0))};
  add_sized(op, slice.bounds, builder, inputs);
  builder.add(std::move(op), inputs, builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
