#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "ctxgen/onednn/op_kinds.h"

#include "../dim_chains.h"
#include "../dim_list.h"
#include "../op_row.h"
#include "ops.h"

// Pad, Gather, Tile, Expand, DepthToSpace, SpaceToDepth: they move data, and claiming them keeps the
// nodes around them in one partition.
namespace ctxgen::onednn {

namespace {

constexpr std::int64_t kMostPad = std::int64_t{1} << 24;

Read<std::vector<std::int64_t>> pad_axes(const NodeView& n, std::size_t rank) {
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.node().opset < 18 || !n.has_input(3)) return axes;
  axes = CTXGEN_TRY(constant_ints(n, 3, "axes input"));
  for (std::int64_t& axis : axes) axis = CTXGEN_TRY(axis_of(axis, rank));
  return axes;
}

Read<float> pad_value(const NodeView& n) {
  if (n.node().opset < 11) return n.node().float_or("value", 0.0F);
  if (!n.has_input(2)) return 0.0F;
  return constant_scalar(n, 2, "constant_value input");
}

Read<PadParams> read_pad(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const std::size_t rank = n.rank(0);
  std::vector<std::int64_t> given;
  if (n.node().opset >= 11) {
    given = CTXGEN_TRY(constant_ints(n, 1, "pads input"));
  } else {
    const auto attribute = n.node().ints(n.node().opset < 2 ? "paddings" : "pads");
    if (!attribute) return refuse("pads are absent");
    given = list_of(*attribute);
  }
  const auto axes = CTXGEN_TRY(pad_axes(n, rank));
  if (given.size() != 2 * axes.size()) {
    return refuse("{} pads for {} axes", given.size(), axes.size());
  }
  PadParams params{.pads = std::vector<std::int64_t>(2 * rank, 0), .mode = {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (const std::size_t side : {0, 1}) {
      const std::int64_t pad = given[i + side * axes.size()];
      if (pad < -kMostPad || pad > kMostPad) return refuse("a pad of {}", pad);
      params.pads[static_cast<std::size_t>(axes[i]) + side * rank] = pad;
    }
  }
  params.mode = n.node().string_or("mode", "constant");
  if (params.mode != "constant" && params.mode != "reflect" && params.mode != "edge" &&
      params.mode != "wrap") {
    return refuse("mode is \"{}\"", params.mode);
  }
  const bool cuts = std::ranges::any_of(params.pads, [](std::int64_t p) { return p < 0; });
  if (cuts && params.mode != "constant") return refuse("negative pads in mode {}", params.mode);
  params.value = CTXGEN_TRY(pad_value(n));
  return params;
}

/// Gather from a constant table: embeddings. Returns the table.
Read<Tensor> read_lookup(const NodeView& n) {
  const Tensor* table = n.constant(0);
  const bool bytes = is_byte(table->type());
  if (!bytes) table = CTXGEN_TRY(constant_f32(n, 0, "data"));
  if (table->element_count() == 0) return refuse("data is empty");
  if (table->rank() == 0) return refuse("data is a scalar");
  const std::int64_t axis = CTXGEN_TRY(axis_of(n.node().int_or("axis", 0), table->rank()));
  if (axis != 0) return refuse("axis is {}, expected 0 where data is constant", axis);
  CTXGEN_REFUSE(require_value(n, 1, {DataType::kInt32, DataType::kInt64}));
  return *table;
}

Read<GatherParams> read_gather(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Tensor* given = n.has_input(1) ? n.constant(1) : nullptr;
  if (given == nullptr) return refuse("indices are not constant");
  constexpr std::int64_t kMostIndices = 4096;
  if (given->element_count() < 1 || given->element_count() > kMostIndices) {
    return refuse("{} indices, expected 1 to {}", given->element_count(), kMostIndices);
  }
  GatherParams params{.axis = CTXGEN_TRY(axis_of(n.node().int_or("axis", 0), n.rank(0))),
                      .indices = {},
                      .index_dims = list_of(given->dims().span())};
  params.indices = CTXGEN_TRY(ints_of(*given, "indices"));
  const Dim length = n.input_dims(0)[static_cast<std::size_t>(params.axis)];
  for (const std::int64_t index : params.indices) {
    const bool inside = !length.is_fixed() || (index >= -length.value() && index < length.value());
    if (!inside) return refuse("index {} is outside of {}", index, length.value());
  }
  return params;
}

Read<std::vector<std::int64_t>> read_tile(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  auto repeats = CTXGEN_TRY(constant_ints(n, 1, "repeats input"));
  if (repeats.size() != n.rank(0))
    return refuse("{} repeats for rank {}", repeats.size(), n.rank(0));
  for (const std::int64_t r : repeats) {
    if (r < 1 || r > kMostPad) return refuse("{} repeats", r);
  }
  return repeats;
}

Read<std::vector<std::int64_t>> read_expand(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  auto shape = CTXGEN_TRY(constant_ints(n, 1, "shape input"));
  if (shape.size() > kMaxRank) return refuse("shape has rank {}", shape.size());
  for (const std::int64_t dim : shape) {
    if (dim < 1) return refuse("shape holds {}", dim);
  }
  return shape;
}

Read<DimLists> read_expand_code(const NodeView& n) {
  CTXGEN_REFUSE(require_movable(n));
  DimLists lists = CTXGEN_TRY(read_dim_lists(n, std::array<std::size_t, 1>{1}));
  if (lists.lists[0].count > kMaxRank) return refuse("shape has rank {}", lists.lists[0].count);
  return lists;
}

/// The shape is known when a plan is made: sizes of other tensors.
Status lower_sized_expand(const NodeView& n, ProgramBuilder& builder) {
  const DimLists lists = CTXGEN_TRY(accepted(read_expand_code(n), n));
  ProgramOp op = builder.op(kind::kExpand, n);
  encode(ExpandParams{}, op);
  add_list(op, "shape", lists.lists[0]);
  std::vector<Operand> inputs{builder.operand(n.input(0))};
  add_sized(op, lists, builder, inputs);
  builder.add(std::move(op), inputs, builder.value(n.output(0)));
  return {};
}

Read<BlocksParams> read_blocks(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  if (n.rank(0) != 4) return refuse("rank {}, expected 4", n.rank(0));
  BlocksParams params{.form = "space_to_depth", .size = n.node().int_or("blocksize", 0)};
  if (params.size < 1 || params.size > 1 << 10) return refuse("blocksize is {}", params.size);
  if (n.node().op_type == "DepthToSpace") {
    const std::string_view mode = n.node().string_or("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") return refuse("mode is \"{}\"", mode);
    params.form = mode == "DCR" ? "depth_to_space_dcr" : "depth_to_space_crd";
  }
  return params;
}

void add_one(const NodeView& n, ProgramBuilder& builder, ProgramOp op) {
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
}

}  // namespace

Refusal check_pad(const NodeView& n) { return refusal_of(read_pad(n)); }

Status lower_pad(const NodeView& n, ProgramBuilder& builder) {
  const PadParams params = CTXGEN_TRY(accepted(read_pad(n), n));
  ProgramOp op = builder.op(kind::kPad, n);
  encode(params, op);
  add_one(n, builder, std::move(op));
  return {};
}

Refusal check_gather(const NodeView& n) {
  return n.constant(0) != nullptr ? refusal_of(read_lookup(n)) : refusal_of(read_gather(n));
}

/// A table of f16 or bf16 stays so in the context binary; what is read from it becomes f32. The value between them
/// says what the source rounds to.
Status lower_lookup(const NodeView& n, ProgramBuilder& builder) {
  const Tensor table = CTXGEN_TRY(accepted(read_lookup(n), n));
  const std::uint32_t result = builder.value(n.output(0));
  const bool half = is_half(table.type());
  const std::uint32_t found =
      half ? builder.temporary(n.node().name, builder.at(result).dims, table.type()) : result;
  const Operand stored =
      half ? builder.stored_weight(n.input_value(0).name, table) : builder.operand(n.input(0));
  builder.add(builder.op(kind::kLookup, n), {stored, builder.operand(n.input(1))}, found);
  if (half) builder.add(builder.op(kind::kPoint, n), {Operand::value(found)}, result);
  return {};
}

Status lower_gather(const NodeView& n, ProgramBuilder& builder) {
  if (n.constant(0) != nullptr) return lower_lookup(n, builder);
  const GatherParams params = CTXGEN_TRY(accepted(read_gather(n), n));
  ProgramOp op = builder.op(kind::kGather, n);
  encode(params, op);
  add_one(n, builder, std::move(op));
  return {};
}

Refusal check_tile(const NodeView& n) { return refusal_of(read_tile(n)); }

Status lower_tile(const NodeView& n, ProgramBuilder& builder) {
  std::vector<std::int64_t> repeats = CTXGEN_TRY(accepted(read_tile(n), n));
  ProgramOp op = builder.op(kind::kTile, n);
  encode(TileParams{std::move(repeats)}, op);
  add_one(n, builder, std::move(op));
  return {};
}

Refusal check_expand(const NodeView& n) {
  if (reads_dims(n.view(), n.node())) return refusal_of(read_expand_code(n));
  return refusal_of(read_expand(n));
}

Status lower_expand(const NodeView& n, ProgramBuilder& builder) {
  if (reads_dims(n.view(), n.node())) return lower_sized_expand(n, builder);
  std::vector<std::int64_t> shape = CTXGEN_TRY(accepted(read_expand(n), n));
  ProgramOp op = builder.op(kind::kExpand, n);
  encode(ExpandParams{std::move(shape)}, op);
  add_one(n, builder, std::move(op));
  return {};
}

Refusal check_blocks(const NodeView& n) { return refusal_of(read_blocks(n)); }

Status lower_blocks(const NodeView& n, ProgramBuilder& builder) {
  const BlocksParams params = CTXGEN_TRY(accepted(read_blocks(n), n));
  ProgramOp op = builder.op(kind::kBlocks, n);
  encode(params, op);
  add_one(n, builder, std::move(op));
  return {};
}

}  // namespace ctxgen::onednn
