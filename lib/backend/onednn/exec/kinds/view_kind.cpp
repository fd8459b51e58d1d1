#include <array>
#include <cstdlib>

#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/params.h"
#include "plan/shapes.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// transpose, reshape, flatten, squeeze, unsqueeze and identity: views of the bytes that are there wherever a layout allows.
namespace ctxgen::onednn {

namespace {

Result<ShapeOutputs> transpose_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  IntList perm = CTXGEN_TRY(decode<TransposeParams>(op)).perm;
  if (perm.empty())
    for (std::size_t i = src.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  std::vector<bool> seen(src.size());
  bool valid = perm.size() == src.size();
  for (std::size_t i = 0; valid && i < perm.size(); ++i) {
    valid = perm[i] >= 0 && perm[i] < static_cast<std::int64_t>(src.size()) &&
            !seen[static_cast<std::size_t>(perm[i])];
    if (valid) seen[static_cast<std::size_t>(perm[i])] = true;
  }
  if (!valid)
    return fail(ErrorCode::kInvalidGraph, "{}: perm is not a permutation of {} axes", label(op),
                src.size());
  Dims out;
  for (const std::int64_t axis : perm) out.push_back(src[static_cast<std::size_t>(axis)]);
  return one_shape(out);
}

Result<std::uint64_t> count_elements(const ProgramOp& op, const Dims& dims) {
  const auto count = checked_element_count(dims);
  if (!count)
    return fail(ErrorCode::kResourceLimit, "{}: shape {} is too large", label(op), to_string(dims));
  return *count;
}

Result<ShapeOutputs> reshape_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const auto params = CTXGEN_TRY(decode<ReshapeParams>(op));
  const IntList& shape = params.shape;
  const auto misfit = [&] {
    return fail(ErrorCode::kInvalidGraph, "{}: source {} does not fit the shape of {} dims",
                label(op), to_string(src), shape.size());
  };
  if (shape.size() > kMaxRank)
    return fail(ErrorCode::kUnsupported, "{}: rank {}", label(op), shape.size());
  Dims out;
  std::size_t open = kMaxRank;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t dim = shape[i];
    if (dim == 0 && !params.allowzero) {
      if (i >= src.size()) return misfit();
      dim = src[i];
    }
    if (dim < -1 || (dim == -1 && open != kMaxRank)) return misfit();
    if (dim == -1) open = i;
    out.push_back(dim == -1 ? 1 : dim);
  }
  const std::uint64_t have = CTXGEN_TRY(count_elements(op, src));
  const std::uint64_t known = CTXGEN_TRY(count_elements(op, out));
  if (open != kMaxRank) {
    if (known == 0 || have % known != 0) return misfit();
    out[open] = static_cast<std::int64_t>(have / known);
  } else if (known != have) {
    return misfit();
  }
  return one_shape(out);
}

Result<ShapeOutputs> flatten_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  std::int64_t axis = CTXGEN_TRY(decode<FlattenParams>(op)).axis;
  const auto rank = static_cast<std::int64_t>(src.size());
  if (axis < -rank || axis > rank)
    return fail(ErrorCode::kInvalidGraph, "{}: axis {} outside rank {}", label(op), axis, rank);
  if (axis < 0) axis += rank;
  const auto split = static_cast<std::size_t>(axis);
  (void)CTXGEN_TRY(count_elements(op, src));
  Dims out{1, 1};
  for (std::size_t i = 0; i < src.size(); ++i) out[i < split ? 0 : 1] *= src[i];
  return one_shape(out);
}

Result<ShapeOutputs> squeeze_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const IntList axes = CTXGEN_TRY(decode<AxesParams>(op)).axes;
  std::array<bool, kMaxRank> drop{};
  for (const std::int64_t axis : axes) {
    const std::size_t at = CTXGEN_TRY(normal_axis(op, axis, src.size()));
    drop[at] = true;
  }
  Dims out;
  for (std::size_t i = 0; i < src.size(); ++i) {
    if (drop[i] && src[i] != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: axis {} of {} is not 1", label(op), i,
                  to_string(src));
    if (!(drop[i] || (axes.empty() && src[i] == 1))) out.push_back(src[i]);
  }
  return one_shape(out);
}

Result<ShapeOutputs> unsqueeze_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& src = in[0].dims;
  const IntList axes = CTXGEN_TRY(decode<AxesParams>(op)).axes;
  const std::size_t rank = src.size() + axes.size();
  if (rank > kMaxRank) return fail(ErrorCode::kUnsupported, "{}: rank {}", label(op), rank);
  std::array<bool, kMaxRank> added{};
  for (const std::int64_t axis : axes) {
    const std::size_t at = CTXGEN_TRY(normal_axis(op, axis, rank));
    if (added[at]) return fail(ErrorCode::kInvalidGraph, "{}: axis {} twice", label(op), axis);
    added[at] = true;
  }
  Dims out;
  for (std::size_t i = 0, from = 0; i < rank; ++i) out.push_back(added[i] ? 1 : src[from++]);
  return one_shape(out);
}

/// Whether one shape becomes the other by moving dims of size 1 after the channel axis only: then
/// channels-last stays channels-last.
bool same_channels_last(const Dims& a, const Dims& b) {
  if (a.size() < 3 || b.size() < 3 || a[0] != b[0] || a[1] != b[1]) return false;
  const auto spatial = [](const Dims& dims) {
    std::vector<std::int64_t> kept;
    for (std::size_t i = 2; i < dims.size(); ++i)
      if (dims[i] != 1) kept.push_back(dims[i]);
    return kept;
  };
  return spatial(a) == spatial(b);
}

Status place_transpose(Placement& pass, std::uint32_t op) {
  const ProgramOp& transpose = pass.program().ops[op];
  const Operand& operand = transpose.inputs[0];
  const std::uint32_t result = transpose.outputs[0];
  const bool products = pass.read_by_products_only(result);
  // Products read a transposed matrix as it is, but not one whose rows are parts of longer ones.
  const bool part =
      products && operand.kind == Operand::Kind::kValue && pass.read_by_moves_only(operand.index);
  const SlotId src =
      pass.need(operand, pass.primary_of(operand),
                part ? Placement::Density::kDense : Placement::Density::kStrided, op);
  IntList perm = CTXGEN_TRY(decode<TransposeParams>(transpose)).perm;
  Slot view = pass.graph().slots[src];
  if (perm.empty())
    for (std::size_t i = view.dims.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  const Slot from = view;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    view.dims[i] = from.dims[static_cast<std::size_t>(perm[i])];
    view.strides[i] = from.strides[static_cast<std::size_t>(perm[i])];
  }
  for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
    if (!is_layout(view.dims, view.strides, layout)) continue;
    // Canonical strides for dims of size 1, as oneDNN's kernels compare them.
    view.strides = strides_of(layout, view.dims);
    pass.set_value(result, layout, pass.add_slot(view));
    return {};
  }
  const SlotId seen = pass.add_slot(view);
  if (pass.read_by_moves_only(result) && volume(view.dims) != 0)
    pass.set_value(result, nearest_layout(view.dims, view.strides), seen);
  else
    pass.set_value(result, Layout::kPlain,
                   products ? seen : pass.convert(seen, Layout::kPlain, op));
  return {};
}

/// The source's bytes as the result, where their strides allow it and no reader wants them denser.
bool reshape_in_place(Placement& pass, std::uint32_t op) {
  const ProgramOp& reshape = pass.program().ops[op];
  const Operand& operand = reshape.inputs[0];
  const std::uint32_t result = reshape.outputs[0];
  const Dims& out = pass.dims(result);
  if (operand.kind != Operand::Kind::kValue || volume(out) == 0) return false;
  const SlotId src = pass.need(operand, pass.primary_of(operand), Placement::Density::kStrided, op);
  Slot view = pass.slot(src);
  const auto strides = reshaped_strides(view.dims, view.strides, out);
  if (!strides) return false;
  view.dims = out;
  view.strides = *strides;
  for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
    if (!is_layout(out, *strides, layout)) continue;
    view.strides = strides_of(layout, out);
    pass.set_value(result, layout, pass.add_slot(view));
    return true;
  }
  if (!pass.read_by_moves_only(result)) return false;
  pass.set_value(result, nearest_layout(out, *strides), pass.add_slot(view));
  return true;
}

/// Copies a view of a channels-last image to the result, channels-last, if the dims of the source that
/// are the closest in memory become channels: a shuffle of channels.
bool reshape_channels(Placement& pass, std::uint32_t op) {
  const ProgramOp& reshape = pass.program().ops[op];
  const Operand& operand = reshape.inputs[0];
  const std::uint32_t result = reshape.outputs[0];
  const Dims& out = pass.dims(result);
  if (operand.kind != Operand::Kind::kValue || volume(out) == 0 || layouts_coincide(out) ||
      pass.is_output(result))
    return false;
  const SlotId src = pass.need(operand, pass.primary_of(operand), Placement::Density::kStrided, op);
  const Slot from = pass.slot(src);
  const auto strides = reshaped_strides(out, strides_of(Layout::kChannelsLast, out), from.dims);
  if (!strides) return false;
  std::size_t closest = from.dims.size();
  for (std::size_t i = 0; i < from.dims.size(); ++i)
    if (from.dims[i] != 1 && (closest == from.dims.size() ||
                              std::abs(from.strides[i]) < std::abs(from.strides[closest])))
      closest = i;
  if (closest == from.dims.size() || (*strides)[closest] >= out[1]) return false;
  const SlotId whole = pass.new_slot(out, Layout::kChannelsLast, from.type);
  Slot parts = pass.slot(whole);
  parts.dims = from.dims;
  parts.strides = *strides;
  Node copy;
  copy.op = op;
  copy.inputs = {src};
  copy.outputs = {pass.add_slot(parts)};
  pass.graph().nodes.push_back(std::move(copy));
  pass.set_value(result, Layout::kChannelsLast, whole);
  return true;
}

Status place_reshape(Placement& pass, std::uint32_t op) {
  if (reshape_in_place(pass, op) || reshape_channels(pass, op)) return {};
  const ProgramOp& reshape = pass.program().ops[op];
  const Operand& operand = reshape.inputs[0];
  const Dims& out = pass.dims(reshape.outputs[0]);
  const Layout primary = pass.primary_of(operand);
  Layout layout = Layout::kPlain;
  if (primary == Layout::kChannelsLast && !layouts_coincide(pass.dims_of(operand)) &&
      same_channels_last(pass.dims_of(operand), out))
    layout = Layout::kChannelsLast;
  const SlotId src = pass.need(operand, layout, Placement::Density::kDense, op);
  Slot view = pass.graph().slots[src];
  view.dims = out;
  view.strides = strides_of(layout, out);
  pass.set_value(reshape.outputs[0], layout, pass.add_slot(view));
  return {};
}

Status place_identity(Placement& pass, std::uint32_t op) {
  const ProgramOp& identity = pass.program().ops[op];
  const std::uint32_t out = identity.outputs[0];
  if (identity.inputs[0].kind == Operand::Kind::kWeight)
    pass.set_value(out, Layout::kPlain, pass.weight_slot(identity.inputs[0].index));
  else
    pass.share_value(out, identity.inputs[0].index);
  return {};
}

}  // namespace

constinit const KindRow kTransposeRow{
    .name = kind::kTranspose,
    .number = 12,
    .inputs = {1, 1},
    .traits =
        {.post_ops = false, .view = true, .rearranges = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = transpose_shape,
    .place = place_transpose,
    .build = nullptr,
};

constinit const KindRow kReshapeRow{
    .name = kind::kReshape,
    .number = 13,
    .inputs = {1, 1},
    .traits =
        {.post_ops = false, .view = true, .rearranges = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = reshape_shape,
    .place = place_reshape,
    .build = nullptr,
};

constinit const KindRow kFlattenRow{
    .name = kind::kFlatten,
    .number = 14,
    .inputs = {1, 1},
    .traits =
        {.post_ops = false, .view = true, .rearranges = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = flatten_shape,
    .place = place_reshape,
    .build = nullptr,
};

constinit const KindRow kSqueezeRow{
    .name = kind::kSqueeze,
    .number = 15,
    .inputs = {1, 1},
    .traits =
        {.post_ops = false, .view = true, .rearranges = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = squeeze_shape,
    .place = place_reshape,
    .build = nullptr,
};

constinit const KindRow kUnsqueezeRow{
    .name = kind::kUnsqueeze,
    .number = 16,
    .inputs = {1, 1},
    .traits =
        {.post_ops = false, .view = true, .rearranges = true, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = unsqueeze_shape,
    .place = place_reshape,
    .build = nullptr,
};

constinit const KindRow kIdentityRow{
    .name = kind::kIdentity,
    .number = 17,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .view = true, .keeps_dims = true, .exact = true},
    .types = check_movable_types,
    .shape = same_shape,
    .place = place_identity,
    .build = nullptr,
};

}  // namespace ctxgen::onednn
