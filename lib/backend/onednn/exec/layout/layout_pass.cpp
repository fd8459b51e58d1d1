#include "layout/layout_pass.h"

#include <algorithm>

#include "layout/placement.h"
#include "plan/params.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {
namespace {

constexpr std::uint32_t kNever = kNone - 1;  // "last used" of what outlives the last op
constexpr std::uint64_t kVectorBytes = 64;

template <class Visit>
void for_each_operand(const ProgramOp& op, const Visit& visit) {
  for (const Operand& operand : op.inputs) visit(operand);
  for (const PostOp& post : op.post_ops) visit(post.operand);
}

}  // namespace

Placement::Placement(const Program& program, std::span<const Dims> value_dims,
                     const LayoutOptions& options)
    : program_(program),
      dims_(value_dims),
      options_(options),
      values_(program.values.size()),
      root_(program.values.size()),
      last_use_(program.values.size(), 0),
      weight_slots_(program.weights.size(), kNone),
      concats_(program.ops.size()) {}

Result<NodeGraph> Placement::run() {
  CTXGEN_CHECK(check_types(program_));
  find_moved_values();
  find_last_uses();
  find_concat_chains();
  find_product_operands();
  make_interface_buffers();
  for (std::uint32_t op = 0; op < program_.ops.size(); ++op) {
    CTXGEN_CHECK(find_kind(program_.ops[op].kind)->place(*this, op));  // check_types found it
  }
  CTXGEN_CHECK(place_outputs());
  return std::move(graph_);
}

void Placement::find_last_uses() {
  for (std::uint32_t v = 0; v < root_.size(); ++v) root_[v] = v;
  for (std::uint32_t i = 0; i < program_.ops.size(); ++i) {
    const ProgramOp& op = program_.ops[i];
    for_each_operand(op, [&](const Operand& operand) {
      if (operand.kind == Operand::Kind::kValue) last_use_[root_[operand.index]] = i;
    });
    if (traits_of(op).view && op.inputs[0].kind == Operand::Kind::kValue)
      root_[op.outputs[0]] = root_[op.inputs[0].index];
  }
  for (const std::uint32_t output : program_.outputs) last_use_[root_[output]] = kNever;
}

void Placement::find_moved_values() {
  moves_only_.assign(program_.values.size(), true);
  for (const ProgramOp& op : program_.ops) {
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue) moves_only_[post.operand.index] = false;
    if (traits_of(op).reads_views) continue;
    for (const Operand& in : op.inputs)
      if (in.kind == Operand::Kind::kValue) moves_only_[in.index] = false;
  }
  for (const std::uint32_t output : program_.outputs) moves_only_[output] = false;
}

/// A transpose whose readers are all matmuls needs no copy: oneDNN reads such strides at full speed
/// (docs/onednn.md, "Matrix product"), which is how attention splits its heads.
void Placement::find_product_operands() {
  products_only_.assign(program_.values.size(), options_.strided_products);
  for (const ProgramOp& op : program_.ops) {
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue) products_only_[post.operand.index] = false;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      if (op.inputs[i].kind == Operand::Kind::kValue && i >= traits_of(op).strided_operands)
        products_only_[op.inputs[i].index] = false;
  }
  for (const std::uint32_t output : program_.outputs) products_only_[output] = false;
}

/// Finds concatenations whose inputs are the first inputs of a later one (DenseNet: every layer
/// concatenates all features so far). The later one's buffer then holds both, and only what is new
/// is copied. That pays only where readers can walk strided rows.
void Placement::find_concat_chains() {
  std::vector<bool> walkable(program_.values.size(), true);
  for (const ProgramOp& op : program_.ops) {
    for (const PostOp& post : op.post_ops)
      if (post.operand.kind == Operand::Kind::kValue) walkable[post.operand.index] = false;
    if (traits_of(op).reads_growing_concat) continue;
    for (const Operand& in : op.inputs)
      if (in.kind == Operand::Kind::kValue) walkable[in.index] = false;
  }
  for (const std::uint32_t output : program_.outputs) walkable[output] = false;
  const auto axis_one = [&](const ProgramOp& op) {
    const auto params = decode<ConcatParams>(op);
    return params && params->axis == 1 && op.post_ops.empty() && dims_[op.outputs[0]].size() >= 3;
  };
  std::vector<std::uint32_t> concats;
  for (std::uint32_t i = 0; i < program_.ops.size(); ++i)
    if (traits_of(program_.ops[i]).concatenates && axis_one(program_.ops[i])) concats.push_back(i);
  // From the back, so that a concat's successor knows its own host already. The successor of a
  // chain is the next longer one, which is nearly always the next concat; looking 8 ahead bounds
  // the work on programs with thousands.
  for (std::size_t i = concats.size(); i-- > 0;) {
    const ProgramOp& small = program_.ops[concats[i]];
    for (std::size_t j = i + 1; j < std::min(concats.size(), i + 9); ++j) {
      const ProgramOp& large = program_.ops[concats[j]];
      const bool nests = large.inputs[0] == Operand::value(small.outputs[0]);
      const bool extends =
          large.inputs.size() > small.inputs.size() &&
          std::ranges::equal(small.inputs, std::span(large.inputs).first(small.inputs.size()));
      if ((!nests && !extends) || !walkable[small.outputs[0]]) continue;
      concats_[concats[i]].host =
          concats_[concats[j]].host == kNone ? concats[j] : concats_[concats[j]].host;
      break;
    }
  }
}

void Placement::make_interface_buffers() {
  for (std::uint32_t i = 0; i < program_.inputs.size(); ++i) {
    const std::uint32_t value = program_.inputs[i];
    const SlotId slot = new_slot(dims_[value], Layout::kPlain, program_.values[value].type);
    Buffer& buffer = graph_.buffers[graph_.slots[slot].buffer];
    buffer.kind = Buffer::Kind::kInput;
    buffer.index = i;
    set_value(value, Layout::kPlain, slot);
  }
}

/// Outputs are written where the user wants them: the buffer of a value that an op of ours writes
/// whole becomes the user's memory; what lives elsewhere (inputs, weights, parts) is copied.
Status Placement::place_outputs() {
  const auto last = static_cast<std::uint32_t>(program_.ops.size() - 1);
  for (std::uint32_t k = 0; k < program_.outputs.size(); ++k) {
    const Operand operand = Operand::value(program_.outputs[k]);
    SlotId slot = need(operand, Layout::kPlain, Density::kDense, last);
    const Slot& place = graph_.slots[slot];
    const Buffer& buffer = graph_.buffers[place.buffer];
    if (buffer.kind != Buffer::Kind::kArena || !fills_buffer(place))
      slot = convert(slot, Layout::kPlain, last);
    Buffer& target = graph_.buffers[graph_.slots[slot].buffer];
    target.kind = Buffer::Kind::kOutput;
    target.index = k;
  }
  return {};
}

const Dims& Placement::dims_of(const Operand& operand) const {
  return operand.kind == Operand::Kind::kWeight ? program_.weights[operand.index].dims
                                                : dims_[operand.index];
}

DataType Placement::type_of(const Operand& operand) const {
  return operand.kind == Operand::Kind::kWeight ? program_.weights[operand.index].type
                                                : program_.values[operand.index].type;
}

bool Placement::fills_buffer(const Slot& slot) const {
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(volume(slot.dims)) * element_bytes(slot.type);
  return slot.offset == 0 && graph_.buffers[slot.buffer].bytes == bytes;
}

Layout Placement::primary_of(const Operand& operand) const {
  return operand.kind == Operand::Kind::kValue ? values_[operand.index].primary : Layout::kPlain;
}

SlotId Placement::add_slot(Slot slot) {
  graph_.slots.push_back(slot);
  return static_cast<SlotId>(graph_.slots.size() - 1);
}

SlotId Placement::new_slot(const Dims& dims, Layout layout, DataType type) {
  Buffer buffer;
  buffer.bytes = static_cast<std::uint64_t>(volume(dims)) * element_bytes(type);
  graph_.buffers.push_back(buffer);
  return add_slot(
      {dims, strides_of(layout, dims), 0, static_cast<BufferId>(graph_.buffers.size() - 1), type});
}

void Placement::set_value(std::uint32_t value, Layout layout, SlotId slot) {
  ValueSlots& slots = values_[value];
  if (slots.slot[0] == kNone && slots.slot[1] == kNone) slots.primary = layout;
  slots.slot[static_cast<std::size_t>(layout)] = slot;
}

void Placement::set_view(std::uint32_t value, Slot view, const Operand& source, std::uint32_t op) {
  // A part that begins where a vector does is as good as a copy.
  const bool aligned =
      static_cast<std::uint64_t>(view.offset) * element_bytes(view.type) % kVectorBytes == 0;
  Layout layout = is_output(value) ? Layout::kPlain : nearest_layout(view.dims, view.strides);
  bool stays = moves_only_[value];
  for (const Layout dense : {Layout::kPlain, Layout::kChannelsLast}) {
    if (!is_layout(view.dims, view.strides, dense)) continue;
    // Canonical strides for dims of size 1, as oneDNN's kernels compare them.
    view.strides = strides_of(dense, view.dims);
    layout = dense;
    stays = stays || aligned;
    break;
  }
  const SlotId seen = add_slot(view);
  if (!stays || volume(view.dims) == 0) return set_value(value, layout, convert(seen, layout, op));
  set_value(value, layout, seen);
  if (source.kind != Operand::Kind::kValue) return;
  const std::uint32_t root = root_of(source.index), own = root_of(value);
  if (root == own) return;
  root_[own] = root;
  last_use_[root] = std::max(last_use_[root], last_use_[own]);
}

std::uint32_t Placement::root_of(std::uint32_t value) const {
  while (root_[value] != value) value = root_[value];
  return value;
}

bool Placement::is_dense(SlotId slot, Layout layout) const {
  return is_layout(graph_.slots[slot].dims, graph_.slots[slot].strides, layout);
}

bool Placement::has_dense(std::uint32_t value) const {
  const auto& slots = values_[value].slot;
  return std::ranges::any_of(slots, [&](SlotId slot) {
    return slot != kNone &&
           (is_dense(slot, Layout::kPlain) || is_dense(slot, Layout::kChannelsLast));
  });
}

SlotId Placement::weight_slot(std::uint32_t weight) {
  if (weight_slots_[weight] == kNone) {
    const SlotId slot =
        new_slot(program_.weights[weight].dims, Layout::kPlain, program_.weights[weight].type);
    Buffer& buffer = graph_.buffers[graph_.slots[slot].buffer];
    buffer.kind = Buffer::Kind::kWeight;
    buffer.index = weight;
    weight_slots_[weight] = slot;
  }
  return weight_slots_[weight];
}

SlotId Placement::convert(SlotId from, Layout layout, std::uint32_t op) {
  const Dims dims = graph_.slots[from].dims;
  const SlotId to = new_slot(dims, layout, graph_.slots[from].type);
  Node node;
  node.op = op;
  node.inputs = {from};
  node.outputs = {to};
  graph_.nodes.push_back(std::move(node));
  return to;
}

SlotId Placement::need(const Operand& operand, Layout layout, Density density, std::uint32_t op) {
  if (operand.kind == Operand::Kind::kWeight) {
    const SlotId plain = weight_slot(operand.index);
    if (is_dense(plain, layout)) return plain;
    return convert(plain, layout, op);
  }
  ValueSlots& slots = values_[operand.index];
  const SlotId direct = slots.slot[static_cast<std::size_t>(layout)];
  if (direct != kNone && (density == Density::kStrided || is_dense(direct, layout))) return direct;
  for (const SlotId other : slots.slot)
    if (other != kNone && is_dense(other, layout)) return other;
  const SlotId from =
      direct != kNone ? direct : slots.slot[static_cast<std::size_t>(slots.primary)];
  const SlotId copy = convert(from, layout, op);
  // A dense copy serves every later reader as well.
  values_[operand.index].slot[static_cast<std::size_t>(layout)] = copy;
  return copy;
}

bool Placement::may_overwrite(const Operand& operand, SlotId slot, std::uint32_t op) const {
  if (operand.kind != Operand::Kind::kValue) return false;
  const std::uint32_t root = root_of(operand.index);
  const Slot& place = graph_.slots[slot];
  const Buffer& buffer = graph_.buffers[place.buffer];
  if (last_use_[root] != op || buffer.kind != Buffer::Kind::kArena || buffer.shared) return false;
  if (!fills_buffer(place)) return false;
  // A result of another width would run ahead of, or fall behind, what is still to be read.
  const DataType result = program_.values[program_.ops[op].outputs[0]].type;
  if (element_bytes(result) != element_bytes(place.type)) return false;
  std::size_t readers = 0;
  for_each_operand(program_.ops[op], [&](const Operand& other) {
    if (other.kind == Operand::Kind::kValue && root_of(other.index) == root) ++readers;
  });
  return readers == 1;
}

SlotId Placement::output_slot(std::uint32_t op, Layout layout, SlotId reuse) {
  const std::uint32_t value = program_.ops[op].outputs[0];
  SlotId slot = kNone;
  if (reuse == kNone) {
    slot = new_slot(dims_[value], layout, program_.values[value].type);
  } else {
    const BufferId buffer = graph_.slots[reuse].buffer;
    slot = add_slot(
        {dims_[value], strides_of(layout, dims_[value]), 0, buffer, program_.values[value].type});
  }
  set_value(value, layout, slot);
  return slot;
}

Node& Placement::add_node(std::uint32_t op) {
  Node node;
  node.op = op;
  node.program_op = &program_.ops[op];
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back();
}

Node& Placement::add_placed(std::uint32_t op, Layout layout, std::vector<SlotId> inputs,
                            SlotId reuse) {
  Node placed;
  place_post_operands(placed, op, layout);
  return finish_node(op, layout, std::move(inputs), std::move(placed.post_ops), reuse);
}

Node& Placement::finish_node(std::uint32_t op, Layout layout, std::vector<SlotId> inputs,
                             std::vector<NodePostOp> post_ops, SlotId reuse) {
  const SlotId dst = output_slot(op, layout, reuse);
  Node& node = add_node(op);
  node.inputs = std::move(inputs);
  node.outputs = {dst};
  node.post_ops = std::move(post_ops);
  return node;
}

Node& Placement::add_product(std::uint32_t op, Layout layout, std::vector<SlotId> inputs) {
  const std::uint32_t sum = in_place_sum(op, layout);
  Node placed;
  place_post_operands(placed, op, layout);
  SlotId reuse = kNone;
  if (sum != kNone) {
    placed.post_ops[sum].in_place_sum = true;
    reuse = placed.post_ops[sum].operand;
  }
  return finish_node(op, layout, std::move(inputs), std::move(placed.post_ops), reuse);
}

/// Full-size operands come in dst's layout (a kernel's post-op wants them so), others as they are.
void Placement::place_post_operands(Node& node, std::uint32_t op, Layout layout) {
  const ProgramOp& program_op = program_.ops[op];
  const Dims& out = dims_[program_op.outputs[0]];
  for (const PostOp& post : program_op.post_ops) {
    NodePostOp placed;
    placed.post = &post;
    if (post.operand.kind != Operand::Kind::kNone) {
      const bool full = dims_of(post.operand) == out;
      placed.operand = need(post.operand, full ? layout : primary_of(post.operand),
                            full ? Density::kDense : Density::kStrided, op);
    }
    node.post_ops.push_back(placed);
  }
}

/// Index of the post-op that can run as a sum over its operand's own memory, or kNone.
std::uint32_t Placement::in_place_sum(std::uint32_t op, Layout layout) {
  const ProgramOp& program_op = program_.ops[op];
  if (!options_.in_place_sums) return kNone;
  const DataType weight = type_of(program_op.inputs[1]);
  const bool widened = (weight == DataType::kBfloat16 || weight == DataType::kFloat16) &&
                       type_of(program_op.inputs[0]) == DataType::kFloat;
  for (std::uint32_t i = 0; i < program_op.post_ops.size(); ++i) {
    const PostOp& post = program_op.post_ops[i];
    // Own products start from what they add to: it comes first.
    if (widened && i > 0) return kNone;
    // A sum in place reads the operand in the result's type and without its scale.
    const DataType type = type_of(Operand::value(program_op.outputs[0]));
    if (is_byte(type) || type == DataType::kInt32) return kNone;
    if (post.kind != "add" || post.operand.kind != Operand::Kind::kValue ||
        type_of(post.operand) != type || dims_of(post.operand) != dims_[program_op.outputs[0]])
      continue;
    const SlotId slot = need(post.operand, layout, Density::kDense, op);
    if (may_overwrite(post.operand, slot, op)) return i;
  }
  return kNone;
}

Result<NodeGraph> choose_layouts(const Program& program, std::span<const Dims> value_dims,
                                 const LayoutOptions& options) {
  if (program.ops.empty())
    return fail(ErrorCode::kUnsupported, "program \"{}\" has no ops", program.name);
  return Placement(program, value_dims, options).run();
}

}  // namespace ctxgen::onednn
