#include <algorithm>
#include <numeric>

#include "ctxgen/onednn/op_kinds.h"

#include "../dim_list.h"
#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

constexpr std::size_t kMostParts = 4096;  // what programs take

Read<std::vector<std::int64_t>> read_perm(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  std::vector<std::int64_t> natural(n.rank(0));
  std::iota(natural.begin(), natural.end(), 0);
  const auto given = n.node().ints("perm");
  if (!given) return std::vector<std::int64_t>(natural.rbegin(), natural.rend());
  std::vector<std::int64_t> sorted = list_of(*given);
  std::ranges::sort(sorted);
  if (sorted != natural) return refuse("perm is not a permutation of {} dims", n.rank(0));
  return list_of(*given);
}

Read<std::int64_t> read_concat(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n, n.input_count()));
  if (n.input_count() > kMostParts) return refuse("{} inputs", n.input_count());
  const bool old = n.node().opset < 4;
  if (!old && n.node().attribute("axis") == nullptr) return refuse("axis is absent");
  for (std::size_t i = 1; i < n.input_count(); ++i) {
    if (n.rank(i) != n.rank(0)) return refuse("ranks {} and {} differ", n.rank(0), n.rank(i));
  }
  return axis_of(n.node().int_or("axis", 1), n.rank(0));
}

Read<SliceParams> read_slice_lists(const NodeView& n) {
  SliceParams params;
  if (n.node().opset < 10) {
    const auto starts = n.node().ints("starts"), ends = n.node().ints("ends");
    const auto axes = n.node().ints("axes");
    if (!starts || !ends) return refuse("starts or ends are absent");
    params.starts = list_of(*starts);
    params.ends = list_of(*ends);
    if (axes) params.axes = list_of(*axes);
    return params;
  }
  params.starts = CTXGEN_TRY(constant_ints(n, 1, "starts input"));
  params.ends = CTXGEN_TRY(constant_ints(n, 2, "ends input"));
  if (n.has_input(3)) params.axes = CTXGEN_TRY(constant_ints(n, 3, "axes input"));
  if (n.has_input(4)) params.steps = CTXGEN_TRY(constant_ints(n, 4, "steps input"));
  return params;
}

Read<SliceParams> read_slice(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  SliceParams params = CTXGEN_TRY(read_slice_lists(n));
  const std::size_t count = params.starts.size();
  if (params.axes.empty()) {
    params.axes.resize(count);
    std::iota(params.axes.begin(), params.axes.end(), 0);
  }
  if (params.steps.empty()) params.steps.assign(count, 1);
  if (params.ends.size() != count || params.axes.size() != count || params.steps.size() != count) {
    return refuse("starts, ends, axes and steps differ in length");
  }
  for (std::int64_t& axis : params.axes) axis = CTXGEN_TRY(axis_of(axis, n.rank(0)));
  std::vector<std::int64_t> sorted = params.axes;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) return refuse("axes has a duplicate");
  if (std::ranges::contains(params.steps, 0)) return refuse("a step is 0");
  return params;
}

/// Sizes of equal parts; from opset 18 on the last one may be smaller.
Read<std::vector<std::int64_t>> equal_parts(const NodeView& n, std::size_t axis) {
  const auto parts = static_cast<std::int64_t>(n.output_count());
  const std::int64_t asked = n.node().int_or("num_outputs", parts);
  if (asked != parts) return refuse("num_outputs is {}, node has {} outputs", asked, parts);
  const Dim dim = n.input_dims(0)[axis];
  if (!dim.is_fixed()) {
    if (n.node().opset >= 18) return refuse("splits a dim of unknown size in parts");
    return std::vector<std::int64_t>{};
  }
  const std::int64_t each = (dim.value() + parts - 1) / parts;
  if (n.node().opset < 18 && each * parts != dim.value()) {
    return refuse("{} does not divide {}", parts, dim.value());
  }
  const std::int64_t last = dim.value() - each * (parts - 1);
  if (last < 1) return refuse("{} parts of {} leave an empty one", parts, dim.value());
  std::vector<std::int64_t> sizes(n.output_count(), each);
  sizes.back() = last;
  return sizes;
}

Read<std::vector<std::int64_t>> given_sizes(const NodeView& n) {
  const std::int64_t opset = n.node().opset;
  if (const auto attribute = n.node().ints("split")) return list_of(*attribute);
  if ((opset >= 13 || opset < 2) && n.has_input(1)) return constant_ints(n, 1, "split input");
  return std::vector<std::int64_t>{};
}

Read<SplitParams> read_split(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  if (n.output_count() > kMostParts) return refuse("{} outputs", n.output_count());
  for (std::size_t i = 0; i < n.output_count(); ++i) {
    if (!n.output(i).valid()) return refuse("output {} is absent", i);
  }
  SplitParams params;
  params.axis = CTXGEN_TRY(axis_of(n.node().int_or("axis", 0), n.rank(0)));
  const auto axis = static_cast<std::size_t>(params.axis);
  params.sizes = CTXGEN_TRY(given_sizes(n));
  if (params.sizes.empty()) {
    params.sizes = CTXGEN_TRY(equal_parts(n, axis));
    return params;
  }
  if (params.sizes.size() != n.output_count()) {
    return refuse("{} sizes for {} outputs", params.sizes.size(), n.output_count());
  }
  for (const std::int64_t size : params.sizes) {
    if (size < 1) return refuse("a part has size {}", size);
  }
  return params;
}

}  // namespace

Refusal check_transpose(const NodeView& n) { return refusal_of(read_perm(n)); }

Status lower_transpose(const NodeView& n, ProgramBuilder& builder) {
  std::vector<std::int64_t> perm = CTXGEN_TRY(accepted(read_perm(n), n));
  ProgramOp op = builder.op(kind::kTranspose, n);
  encode(TransposeParams{std::move(perm)}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_concat(const NodeView& n) { return refusal_of(read_concat(n)); }

Status lower_concat(const NodeView& n, ProgramBuilder& builder) {
  const std::int64_t axis = CTXGEN_TRY(accepted(read_concat(n), n));
  ProgramOp op = builder.op(kind::kConcat, n);
  encode(ConcatParams{axis}, op);
  std::vector<Operand> inputs;
  for (const ValueId id : n.node().inputs) inputs.push_back(builder.operand(id));
  builder.add(std::move(op), inputs, builder.value(n.output(0)));
  return {};
}

Refusal check_slice(const NodeView& n) {
  if (!dim_list_inputs(n.view(), n.node()).empty()) return check_sized_slice(n);
  return refusal_of(read_slice(n));
}

Status lower_slice(const NodeView& n, ProgramBuilder& builder) {
  if (!dim_list_inputs(n.view(), n.node()).empty()) return lower_sized_slice(n, builder);
  const SliceParams params = CTXGEN_TRY(accepted(read_slice(n), n));
  ProgramOp op = builder.op(kind::kSlice, n);
  encode(params, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_split(const NodeView& n) { return refusal_of(read_split(n)); }

Status lower_split(const NodeView& n, ProgramBuilder& builder) {
  const SplitParams params = CTXGEN_TRY(accepted(read_split(n), n));
  ProgramOp op = builder.op(kind::kSplit, n);
  encode(params, op);
  std::vector<std::uint32_t> outputs;
  for (const ValueId id : n.node().outputs) outputs.push_back(builder.value(id));
  builder.add(std::move(op), {builder.operand(n.input(0))}, outputs);
  return {};
}

}  // namespace ctxgen::onednn
