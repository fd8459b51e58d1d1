#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"
#include "kinds/index_maps.h"
#include "layout/layout_pass_impl.h"
#include "plan/params.h"

// Placement of the kinds that move elements (pad, gather, tile, expand, resize, blocks), of
// reductions and norms over groups, and of recurrent layers.
namespace ctxgen::onednn {

/// pad, tile, gather, nearest resize and reductions read any strides; a result of the same rank
/// keeps the layout.
Status LayoutPass::place_index(std::uint32_t op) {
  const ProgramOp& program_op = program_.ops[op];
  const Operand& operand = program_op.inputs[0];
  const Layout from = primary_of(operand);
  const SlotId src = need(operand, from, Density::kStrided, op);
  const bool keeps = dims_of(operand).size() == dims_[program_op.outputs[0]].size();
  const Layout layout = keeps ? from : Layout::kPlain;
  add_placed(op, layout, {src});
  return {};
}

Status LayoutPass::place_resize(std::uint32_t op) {
  const std::string mode = CTXGEN_TRY(Params(program_.ops[op]).text("mode", "nearest"));
  return mode == "nearest" ? place_index(op) : place_spatial(op);
}

/// A view that stands still along what is broadcast, copied once.
Status LayoutPass::place_expand(std::uint32_t op) {
  const ProgramOp& expand = program_.ops[op];
  const Dims& out = dims_[expand.outputs[0]];
  const SlotId src = need(expand.inputs[0], primary_of(expand.inputs[0]), Density::kStrided, op);
  const Slot from = graph_.slots[src];
  Slot view = from;
  view.dims = out;
  view.strides = Dims(out.size(), 0);
  const std::size_t skip = out.size() - from.dims.size();
  for (std::size_t i = 0; i < from.dims.size(); ++i)
    if (from.dims[i] != 1) view.strides[skip + i] = from.strides[i];
  set_value(expand.outputs[0], Layout::kPlain, convert(add_slot(view), Layout::kPlain, op));
  return {};
}

namespace {

/// The source of a block move seen with six dims, in the order of the result's dims.
struct BlockView {
  std::int64_t sizes[6];
  std::size_t from_dim[6];      // the dim of src that it is a part of
  std::int64_t step[6];         // elements of that dim
  std::size_t channel_parts;    // of the six, how many make up the result's channels
};

BlockView block_view(std::string_view form, const Dims& src, std::int64_t b) {
  const std::int64_t n = src[0], c = src[1], h = src[2], w = src[3];
  if (form == "space_to_depth")
    // [n, bh, bw, c, h/b, w/b]
    return {{n, b, b, c, h / b, w / b}, {0, 2, 3, 1, 2, 3}, {1, 1, 1, 1, b, b}, 3};
  const std::int64_t deep = c / (b * b);
  // [n, c', h, bh, w, bw]
  if (form == "depth_to_space_dcr")
    return {{n, deep, h, b, w, b}, {0, 1, 2, 1, 3, 1}, {1, 1, 1, b * deep, 1, deep}, 1};
  return {{n, deep, h, b, w, b}, {0, 1, 2, 1, 3, 1}, {1, b * b, 1, b, 1, 1}, 1};
}

}  // namespace

/// depth_to_space and its inverse: one copy between views of six dims; channels-last stays so.
Status LayoutPass::place_blocks(std::uint32_t op) {
  const ProgramOp& blocks = program_.ops[op];
  const Params params(blocks);
  const std::string form = CTXGEN_TRY(params.text("form", ""));
  const std::int64_t size = CTXGEN_TRY(params.integer("size", 1));
  const Layout layout = primary_of(blocks.inputs[0]);
  const SlotId src = need(blocks.inputs[0], layout, Density::kStrided, op);
  const Slot from = graph_.slots[src];
  const BlockView seen = block_view(form, from.dims, size);
  std::vector<std::size_t> order{0, 1, 2, 3, 4, 5};
  if (layout == Layout::kChannelsLast)  // images, pixels, channels
    std::rotate(order.begin() + 1,
                order.begin() + 1 + static_cast<std::ptrdiff_t>(seen.channel_parts), order.end());
  Slot view = from;
  view.dims = Dims(6, 1);
  view.strides = Dims(6, 1);
  for (std::size_t i = 0; i < 6; ++i) {
    view.dims[i] = seen.sizes[order[i]];
    view.strides[i] = from.strides[seen.from_dim[order[i]]] * seen.step[order[i]];
  }
  const SlotId moved = convert(add_slot(view), Layout::kPlain, op);
  Slot result = graph_.slots[moved];
  result.dims = dims_[blocks.outputs[0]];
  result.strides = strides_of(layout, result.dims);
  set_value(blocks.outputs[0], layout, add_slot(result));
  return {};
}

Status LayoutPass::place_group_norm(std::uint32_t op) {
  const ProgramOp& norm = program_.ops[op];
  const Layout layout = primary_of(norm.inputs[0]);
  std::vector<SlotId> inputs{need(norm.inputs[0], layout, Density::kDense, op)};
  for (std::size_t i = 1; i < norm.inputs.size(); ++i)
    inputs.push_back(norm.inputs[i].kind == Operand::Kind::kNone
                         ? kNone
                         : need(norm.inputs[i], Layout::kPlain, Density::kDense, op));
  add_placed(op, layout, std::move(inputs));
  return {};
}

Status LayoutPass::place_rnn(std::uint32_t op) {
  const ProgramOp& rnn = program_.ops[op];
  std::vector<SlotId> inputs, outputs;
  for (const Operand& operand : rnn.inputs)
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : need(operand, Layout::kPlain, Density::kDense, op));
  for (const std::uint32_t value : rnn.outputs) {
    outputs.push_back(new_slot(dims_[value], Layout::kPlain, program_.values[value].type));
    set_value(value, Layout::kPlain, outputs.back());
  }
  Node& node = add_node(op);
  node.inputs = std::move(inputs);
  node.outputs = std::move(outputs);
  return {};
}

}  // namespace ctxgen::onednn
