#include <algorithm>
#include <array>

#include "ctxgen/onednn/op_kinds.h"
#include "layout/layout_pass_impl.h"
#include "plan/params.h"
#include "plan/shapes.h"

// The placement rules of the op families: which layout each kind reads and writes.
namespace ctxgen::onednn {
namespace {

/// Whether one shape becomes the other by moving dims of size 1 behind the channel axis only: then
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

}  // namespace

const LayoutPass::RuleRow LayoutPass::kRules[] = {
    {kind::kConv, &LayoutPass::place_conv},
    {kind::kPool, &LayoutPass::place_spatial},
    {kind::kGlobalPool, &LayoutPass::place_spatial},
    {kind::kLrn, &LayoutPass::place_spatial},
    {kind::kMatmul, &LayoutPass::place_matmul},
    {kind::kLayerNorm, &LayoutPass::place_plain},
    {kind::kSoftmax, &LayoutPass::place_softmax},
    {kind::kEltwise, &LayoutPass::place_eltwise},
    {kind::kScaleShift, &LayoutPass::place_eltwise},
    {kind::kBinary, &LayoutPass::place_binary},
    {kind::kConcat, &LayoutPass::place_concat},
    {kind::kTranspose, &LayoutPass::place_transpose},
    {kind::kReshape, &LayoutPass::place_reshape},
    {kind::kFlatten, &LayoutPass::place_reshape},
    {kind::kSqueeze, &LayoutPass::place_reshape},
    {kind::kUnsqueeze, &LayoutPass::place_reshape},
    {kind::kIdentity, &LayoutPass::place_identity},
    {kind::kSlice, &LayoutPass::place_same_layout},
    {kind::kSplit, &LayoutPass::place_same_layout},
    {kind::kPoint, &LayoutPass::place_eltwise},
    {kind::kQConv, &LayoutPass::place_conv},
    {kind::kQMatmul, &LayoutPass::place_matmul},
    {kind::kDeconv, &LayoutPass::place_conv},
    {kind::kPad, &LayoutPass::place_index},
    {kind::kGather, &LayoutPass::place_index},
    {kind::kTile, &LayoutPass::place_index},
    {kind::kExpand, &LayoutPass::place_expand},
    {kind::kSelect, &LayoutPass::place_select},
    {kind::kResize, &LayoutPass::place_resize},
    {kind::kBlocks, &LayoutPass::place_blocks},
    {kind::kReduce, &LayoutPass::place_index},
    {kind::kRmsNorm, &LayoutPass::place_plain},
    {kind::kGroupNorm, &LayoutPass::place_group_norm},
    {kind::kRnn, &LayoutPass::place_rnn},
    {{}, nullptr},
};

Status LayoutPass::place_spatial(std::uint32_t op) {
  const SlotId src = need(program_.ops[op].inputs[0], Layout::kChannelsLast, Density::kDense, op);
  Node node;
  place_post_operands(node, op, Layout::kChannelsLast);
  const SlotId dst = output_slot(op, Layout::kChannelsLast, kNone);
  Node& added = add_node(op);
  added.inputs = {src};
  added.outputs = {dst};
  added.post_ops = std::move(node.post_ops);
  return {};
}

/// The slot of an optional vector input.
SlotId LayoutPass::place_vector(std::uint32_t op, std::size_t input) {
  const std::vector<Operand>& inputs = program_.ops[op].inputs;
  if (input >= inputs.size() || inputs[input].kind == Operand::Kind::kNone) return kNone;
  return need(inputs[input], Layout::kPlain, Density::kDense, op);
}

Status LayoutPass::place_conv(std::uint32_t op) {
  const ProgramOp& conv = program_.ops[op];
  if (conv.inputs[1].kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: weights must be constant", label(conv));
  const SlotId src = need(conv.inputs[0], Layout::kChannelsLast, Density::kDense, op);
  const SlotId bias = place_vector(op, 2), scales = place_vector(op, 3);
  const std::uint32_t sum = in_place_sum(op, Layout::kChannelsLast);
  Node placed;
  place_post_operands(placed, op, Layout::kChannelsLast);
  SlotId reuse = kNone;
  if (sum != kNone) {
    placed.post_ops[sum].in_place_sum = true;
    reuse = placed.post_ops[sum].operand;
  }
  const SlotId dst = output_slot(op, Layout::kChannelsLast, reuse);
  Node& node = add_node(op);
  node.inputs = {src, kNone, bias, scales};
  node.outputs = {dst};
  node.post_ops = std::move(placed.post_ops);
  node.packed_weight = conv.inputs[1].index;
  return {};
}

/// A transpose whose readers are all matmuls needs no copy: oneDNN reads such strides at full speed
/// (docs/onednn.md, "Matrix product"), which is how attention splits its heads.
void LayoutPass::find_product_operands() {
  products_only_.assign(program_.values.size(), options_.strided_products);
  for (const ProgramOp& op : program_.ops) {
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue) products_only_[post.operand.index] = false;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].kind == Operand::Kind::kValue && (op.kind != kind::kMatmul || i > 1))
        products_only_[op.inputs[i].index] = false;
  }
  for (const std::uint32_t output : program_.outputs) products_only_[output] = false;
}

/// One operand of a product: as it lies, if `strided` and if rows or columns are contiguous.
SlotId LayoutPass::product_operand(const Operand& operand, bool strided, std::uint32_t op) {
  if (strided && options_.strided_products) {
    const SlotId slot = need(operand, Layout::kPlain, Density::kStrided, op);
    const Slot& place = graph_.slots[slot];
    const std::size_t rank = place.dims.size();
    if (place.strides[rank - 1] == 1 || place.strides[rank - 2] == 1) return slot;
  }
  return need(operand, Layout::kPlain, Density::kDense, op);
}

Status LayoutPass::place_matmul(std::uint32_t op) {
  const ProgramOp& matmul = program_.ops[op];
  // Rows of several batches form one tall matrix only if they are dense.
  const Dims& right = dims_of(matmul.inputs[1]);
  const bool batches = volume(Dims(right.span().first(right.size() - 2))) != 1;
  const SlotId a =
      product_operand(matmul.inputs[0], batches || dims_of(matmul.inputs[0]).size() == 2, op);
  // A constant of more than two dims, or behind a transposed batch, is read as it is.
  const bool batch_of_transposed =
      dims_of(matmul.inputs[0]).size() > 2 && CTXGEN_TRY(Params(matmul).integer("trans_a", 0)) != 0;
  const bool packs = matmul.inputs[1].kind == Operand::Kind::kWeight &&
                     dims_of(matmul.inputs[1]).size() == 2 && !batch_of_transposed;
  const SlotId b = packs ? kNone : product_operand(matmul.inputs[1], true, op);
  if (matmul.kind == kind::kQMatmul && !packs)
    return fail(ErrorCode::kUnsupported, "{}: the second operand must be a constant matrix", label(matmul));
  const SlotId bias = place_vector(op, 2), scales = place_vector(op, 3);
  const std::uint32_t sum = in_place_sum(op, Layout::kPlain);
  Node placed;
  place_post_operands(placed, op, Layout::kPlain);
  SlotId reuse = kNone;
  if (sum != kNone) {
    placed.post_ops[sum].in_place_sum = true;
    reuse = placed.post_ops[sum].operand;
  }
  const SlotId dst = output_slot(op, Layout::kPlain, reuse);
  Node& node = add_node(op);
  node.inputs = {a, b, bias, scales};
  node.outputs = {dst};
  node.post_ops = std::move(placed.post_ops);
  if (packs) node.packed_weight = matmul.inputs[1].index;
  return {};
}

Status LayoutPass::place_plain(std::uint32_t op) {
  std::vector<SlotId> inputs;
  for (const Operand& operand : program_.ops[op].inputs)
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : need(operand, Layout::kPlain, Density::kDense, op));
  add_placed(op, Layout::kPlain, std::move(inputs));
  return {};
}

/// Over the channels of a channels-last tensor the axis is the contiguous one: no copy is needed.
Status LayoutPass::place_softmax(std::uint32_t op) {
  const ProgramOp& softmax = program_.ops[op];
  const std::size_t axis = CTXGEN_TRY(axis_param(softmax, -1, dims_of(softmax.inputs[0]).size()));
  const bool keeps = axis == 1 && primary_of(softmax.inputs[0]) == Layout::kChannelsLast;
  const Layout layout = keeps ? Layout::kChannelsLast : Layout::kPlain;
  const SlotId src = need(softmax.inputs[0], layout, Density::kDense, op);
  add_placed(op, layout, {src});
  return {};
}

Status LayoutPass::place_eltwise(std::uint32_t op) {
  const ProgramOp& eltwise = program_.ops[op];
  const Layout layout = primary_of(eltwise.inputs[0]);
  // Own loops walk the growing buffer of a concatenation as it is.
  const bool walks = eltwise.kind == kind::kScaleShift || eltwise.kind == kind::kPoint;
  const Density density = walks ? Density::kStrided : Density::kDense;
  std::vector<SlotId> inputs{need(eltwise.inputs[0], layout, density, op)};
  for (std::size_t i = 1; i < eltwise.inputs.size(); ++i)
    inputs.push_back(need(eltwise.inputs[i], Layout::kPlain, Density::kDense, op));
  const bool reuse =
      is_dense(inputs[0], layout) && may_overwrite(eltwise.inputs[0], inputs[0], op);
  const SlotId over = reuse ? inputs[0] : kNone;
  add_placed(op, layout, std::move(inputs), over);
  return {};
}

/// Channels-last if one of the operands that are as large as the result is.
Layout LayoutPass::joint_layout(std::uint32_t op) const {
  const Dims& out = dims_[program_.ops[op].outputs[0]];
  const bool last = std::ranges::any_of(program_.ops[op].inputs, [&](const Operand& operand) {
    return dims_of(operand) == out && primary_of(operand) == Layout::kChannelsLast;
  });
  return last ? Layout::kChannelsLast : Layout::kPlain;
}

Status LayoutPass::place_binary(std::uint32_t op) {
  const ProgramOp& binary = program_.ops[op];
  const Dims& out = dims_[binary.outputs[0]];
  const Layout layout = joint_layout(op);
  // The loops run from the first operand; a broadcast one goes second where that is the same.
  std::array<std::size_t, 2> order{0, 1};
  const std::string alg = CTXGEN_TRY(Params(binary).text("alg", ""));
  const bool commutes = alg == "add" || alg == "mul" || alg == "max" || alg == "min";
  if (commutes && dims_of(binary.inputs[0]) != out && dims_of(binary.inputs[1]) == out)
    std::swap(order[0], order[1]);
  std::vector<SlotId> inputs;
  SlotId reuse = kNone;
  bool source_dense = true;
  for (const std::size_t index : order) {
    const Operand& operand = binary.inputs[index];
    const bool full = dims_of(operand) == out;
    inputs.push_back(
        need(operand, full ? layout : primary_of(operand), Density::kStrided, op));
    const bool dense = full && is_dense(inputs.back(), layout);
    if (inputs.size() == 1) source_dense = dense;
    // A broadcast source is spread over the destination first, which must not hold the other one.
    if (dense && source_dense && reuse == kNone && may_overwrite(operand, inputs.back(), op))
      reuse = inputs.back();
  }
  add_placed(op, layout, std::move(inputs), reuse);
  return {};
}

/// The loop reads operands as they lie and may write over one that it reads at the same places.
Status LayoutPass::place_select(std::uint32_t op) {
  const ProgramOp& select = program_.ops[op];
  const Dims& out = dims_[select.outputs[0]];
  const Layout layout = joint_layout(op);
  std::vector<SlotId> inputs;
  SlotId reuse = kNone;
  for (const Operand& operand : select.inputs) {
    const bool full = dims_of(operand) == out;
    inputs.push_back(need(operand, full ? layout : primary_of(operand), Density::kStrided, op));
    if (full && reuse == kNone && is_dense(inputs.back(), layout) &&
        may_overwrite(operand, inputs.back(), op))
      reuse = inputs.back();
  }
  add_placed(op, layout, std::move(inputs), reuse);
  return {};
}

/// Finds concatenations whose inputs are the first inputs of a later one (DenseNet: every layer
/// concatenates all features so far). The later one's buffer then holds both, and only what is new
/// is copied. That pays only where readers can walk strided rows.
void LayoutPass::find_concat_chains() {
  std::vector<bool> walkable(program_.values.size(), true);
  for (const ProgramOp& op : program_.ops) {
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue) walkable[post.operand.index] = false;
    if (op.kind == kind::kScaleShift || op.kind == kind::kConcat) continue;
    for (const Operand& in : op.inputs)
      if (in.kind == Operand::Kind::kValue) walkable[in.index] = false;
  }
  for (const std::uint32_t output : program_.outputs) walkable[output] = false;
  const auto axis_one = [&](const ProgramOp& op) {
    const auto axis = Params(op).integer("axis", 0);
    return axis && *axis == 1 && op.post_ops.empty() && dims_[op.outputs[0]].size() >= 3;
  };
  std::vector<std::uint32_t> concats;
  for (std::uint32_t i = 0; i < program_.ops.size(); ++i)
    if (program_.ops[i].kind == kind::kConcat && axis_one(program_.ops[i])) concats.push_back(i);
  // From the back, so that a concat's successor knows its own host already. The successor of a
  // chain is the next longer one, which is nearly always the next concat; looking 8 ahead bounds
  // the work on programs with thousands.
  for (std::size_t i = concats.size(); i-- > 0;) {
    const ProgramOp& small = program_.ops[concats[i]];
    for (std::size_t j = i + 1; j < std::min(concats.size(), i + 9); ++j) {
      const ProgramOp& large = program_.ops[concats[j]];
      const bool nests = large.inputs[0] == Operand::value(small.outputs[0]);
      const bool extends = large.inputs.size() > small.inputs.size() &&
                           std::ranges::equal(small.inputs, std::span(large.inputs)
                                                                .first(small.inputs.size()));
      if ((!nests && !extends) || !walkable[small.outputs[0]]) continue;
      concats_[concats[i]].host =
          concats_[concats[j]].host == kNone ? concats[j] : concats_[concats[j]].host;
      break;
    }
  }
}

Status LayoutPass::place_concat(std::uint32_t op) {
  const ProgramOp& concat = program_.ops[op];
  const Dims& out = dims_[concat.outputs[0]];
  const std::size_t axis = CTXGEN_TRY(axis_param(concat, 0, out.size()));
  const std::uint32_t host_op = concats_[op].host == kNone ? op : concats_[op].host;
  ConcatPlace& host = concats_[host_op];
  bool in_chain = host.slot != kNone || host_op != op;
  Layout layout = in_chain ? Layout::kChannelsLast : Layout::kPlain;
  for (const Operand& operand : concat.inputs)
    if (primary_of(operand) == Layout::kChannelsLast) layout = Layout::kChannelsLast;
  Node placed;
  place_post_operands(placed, op, layout);
  if (in_chain && host.slot == kNone) {
    const std::uint32_t whole = program_.ops[host_op].outputs[0];
    host.slot = new_slot(dims_[whole], layout, program_.values[whole].type);
    graph_.buffers[graph_.slots[host.slot].buffer].shared = true;
  }
  SlotId dst = kNone;
  if (in_chain) {
    Slot prefix = graph_.slots[host.slot];
    prefix.dims = out;
    dst = add_slot(prefix);
    set_value(concat.outputs[0], layout, dst);
  } else {
    dst = output_slot(op, layout, kNone);
  }
  std::int64_t at = 0;
  for (const Operand& operand : concat.inputs) {
    const SlotId src = need(operand, layout, Density::kStrided, op);
    Slot part = graph_.slots[dst];
    part.dims = dims_of(operand);
    part.offset += at * part.strides[axis];
    at += part.dims[axis];
    // What an earlier concat of the chain has written lies at the same channels already.
    if (in_chain && at <= host.filled_to) continue;
    Node copy;
    copy.op = op;
    copy.inputs = {src};
    copy.outputs = {add_slot(part)};
    graph_.nodes.push_back(std::move(copy));
  }
  if (in_chain) host.filled_to = std::max(host.filled_to, at);
  if (placed.post_ops.empty()) return {};
  // Post-ops of a concat run over the finished tensor in place.
  Node& node = add_node(op);
  node.inputs = {dst};
  node.outputs = {dst};
  node.post_ops = std::move(placed.post_ops);
  return {};
}

Status LayoutPass::place_transpose(std::uint32_t op) {
  const ProgramOp& transpose = program_.ops[op];
  const SlotId src =
      need(transpose.inputs[0], primary_of(transpose.inputs[0]), Density::kStrided, op);
  std::vector<std::int64_t> perm = CTXGEN_TRY(Params(transpose).list("perm"));
  Slot view = graph_.slots[src];
  if (perm.empty())
    for (std::size_t i = view.dims.size(); i-- > 0;) perm.push_back(static_cast<std::int64_t>(i));
  const Slot from = view;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    view.dims[i] = from.dims[static_cast<std::size_t>(perm[i])];
    view.strides[i] = from.strides[static_cast<std::size_t>(perm[i])];
  }
  const SlotId seen = add_slot(view);
  for (const Layout layout : {Layout::kPlain, Layout::kChannelsLast}) {
    if (!is_layout(view.dims, view.strides, layout)) continue;
    // Canonical strides for dims of size 1, as oneDNN's kernels compare them.
    graph_.slots[seen].strides = strides_of(layout, view.dims);
    set_value(transpose.outputs[0], layout, seen);
    return {};
  }
  const bool view_only = products_only_[transpose.outputs[0]];
  set_value(transpose.outputs[0], Layout::kPlain,
            view_only ? seen : convert(seen, Layout::kPlain, op));
  return {};
}

Status LayoutPass::place_reshape(std::uint32_t op) {
  const ProgramOp& reshape = program_.ops[op];
  const Operand& operand = reshape.inputs[0];
  const Dims& out = dims_[reshape.outputs[0]];
  const Layout primary = primary_of(operand);
  Layout layout = Layout::kPlain;
  if (primary == Layout::kChannelsLast && !layouts_coincide(dims_of(operand)) &&
      same_channels_last(dims_of(operand), out))
    layout = Layout::kChannelsLast;
  const SlotId src = need(operand, layout, Density::kDense, op);
  Slot view = graph_.slots[src];
  view.dims = out;
  view.strides = strides_of(layout, out);
  set_value(reshape.outputs[0], layout, add_slot(view));
  return {};
}

Status LayoutPass::place_identity(std::uint32_t op) {
  const ProgramOp& identity = program_.ops[op];
  const std::uint32_t out = identity.outputs[0];
  if (identity.inputs[0].kind == Operand::Kind::kWeight)
    set_value(out, Layout::kPlain, weight_slot(identity.inputs[0].index));
  else
    values_[out] = values_[identity.inputs[0].index];
  return {};
}

/// slice and split: own copies that keep the layout.
Status LayoutPass::place_same_layout(std::uint32_t op) {
  const ProgramOp& program_op = program_.ops[op];
  const Operand& operand = program_op.inputs[0];
  const Layout layout = primary_of(operand);
  const SlotId src = need(operand, layout, Density::kStrided, op);
  const Dims in = dims_of(operand);
  SliceRange range{std::vector<std::int64_t>(in.size(), 0), std::vector<std::int64_t>(in.size(), 1),
                   in};
  std::size_t axis = 0;
  if (program_op.kind == kind::kSlice)
    range = CTXGEN_TRY(resolve_slice(program_op, in));
  else
    axis = CTXGEN_TRY(axis_param(program_op, 0, in.size()));
  for (const std::uint32_t value : program_op.outputs) {
    Slot part = graph_.slots[src];
    part.dims = dims_[value];
    for (std::size_t i = 0; i < in.size(); ++i) {
      part.offset += range.start[i] * part.strides[i];
      part.strides[i] *= range.step[i];
    }
    if (program_op.kind == kind::kSplit) range.start[axis] += dims_[value][axis];
    const SlotId from = add_slot(part);
    set_value(value, layout, convert(from, layout, op));
  }
  return {};
}

}  // namespace ctxgen::onednn
