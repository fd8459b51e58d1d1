#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/params.h"
#include "plan/shapes.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// slice and split: parts of the source, copied where a reader needs them dense.
namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> slice_shape(const ProgramOp& op, ShapeInputs in) {
  return one_shape(CTXGEN_TRY(resolve_slice(op, in[0].dims)).dims);
}

Result<ShapeOutputs> split_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const std::size_t axis = CTXGEN_TRY(axis_param<SplitParams>(op, src.size()));
  ShapeOutputs outputs;
  for (const std::int64_t size : CTXGEN_TRY(resolve_split(op, src[axis]))) {
    outputs.push_back(src);
    outputs.back()[axis] = size;
  }
  return outputs;
}

/// A part of the source that begins at `start`.
void place_part(Placement& pass, std::uint32_t op, SlotId src, const SliceRange& range,
                std::uint32_t value) {
  Slot part = pass.graph().slots[src];
  part.dims = pass.dims(value);
  for (std::size_t i = 0; i < part.strides.size(); ++i) {
    part.offset += range.start[i] * part.strides[i];
    part.strides[i] *= range.step[i];
  }
  pass.set_view(value, part, pass.program().ops[op].inputs[0], op);
}

SlotId place_source(Placement& pass, std::uint32_t op) {
  const Operand& operand = pass.program().ops[op].inputs[0];
  return pass.need(operand, pass.primary_of(operand), Placement::Density::kStrided, op);
}

Status place_slice(Placement& pass, std::uint32_t op) {
  const ProgramOp& slice = pass.program().ops[op];
  const SlotId src = place_source(pass, op);
  const SliceRange range = CTXGEN_TRY(resolve_slice(slice, pass.dims_of(slice.inputs[0])));
  place_part(pass, op, src, range, slice.outputs[0]);
  return {};
}

Status place_split(Placement& pass, std::uint32_t op) {
  const ProgramOp& split = pass.program().ops[op];
  const SlotId src = place_source(pass, op);
  const Dims& in = pass.dims_of(split.inputs[0]);
  const std::size_t axis = CTXGEN_TRY(axis_param<SplitParams>(split, in.size()));
  SliceRange range{std::vector<std::int64_t>(in.size(), 0), std::vector<std::int64_t>(in.size(), 1),
                   in};
  for (const std::uint32_t value : split.outputs) {
    place_part(pass, op, src, range, value);
    range.start[axis] += pass.dims(value)[axis];
  }
  return {};
}

}  // namespace

constinit const KindRow kSliceRow{
    .name = kind::kSlice,
    .number = 18,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = slice_shape,
    .place = place_slice,
    .build = nullptr,
};

constinit const KindRow kSplitRow{
    .name = kind::kSplit,
    .number = 19,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .takes_empty = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = split_shape,
    .place = place_split,
    .build = nullptr,
};

}  // namespace ctxgen::onednn
