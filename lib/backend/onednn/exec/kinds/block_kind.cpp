#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/params.h"
#include "plan/shapes.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// expand and blocks (depth_to_space, space_to_depth): one copy between views.
namespace ctxgen::onednn {

namespace {

std::unexpected<Error> too_large(const ProgramOp& op, std::int64_t dim) {
  return fail(ErrorCode::kResourceLimit, "{}: a dim of {} is too large", label(op), dim);
}

Result<ShapeOutputs> expand_shape(const ProgramOp& op, ShapeInputs in) {
  const IntList shape = CTXGEN_TRY(decode<ExpandParams>(op)).shape;
  const bool negative = std::ranges::any_of(shape, [](std::int64_t d) { return d < 0; });
  if (shape.size() > kMaxRank || negative)
    return fail(ErrorCode::kInvalidGraph, "{}: shape of {} dims", label(op), shape.size());
  return one_shape(CTXGEN_TRY(broadcast_dims(op, in[0].dims, Dims(std::span(shape)))));
}

Result<ShapeOutputs> blocks_shape(const ProgramOp& op, ShapeInputs in) {
  const auto params = CTXGEN_TRY(decode<BlocksParams>(op));
  const Dims& src = in[0].dims;
  const std::string& form = params.form;
  const std::int64_t size = params.size;
  const bool spreads = form == "depth_to_space_dcr" || form == "depth_to_space_crd";
  if (!spreads && form != "space_to_depth")
    return fail(ErrorCode::kUnsupported, "{}: form \"{}\"", label(op), form);
  if (src.size() != 4 || size < 1 || size > 1 << 15)
    return fail(ErrorCode::kInvalidGraph, "{}: source {}, block size {}", label(op), to_string(src),
                size);
  const bool fits =
      spreads ? src[1] % (size * size) == 0 : src[2] % size == 0 && src[3] % size == 0;
  if (!fits)
    return fail(ErrorCode::kInvalidGraph, "{}: blocks of {} do not fit {}", label(op), size,
                to_string(src));
  constexpr std::int64_t kMostDim = std::int64_t{1} << 40;
  if (std::ranges::any_of(src, [](std::int64_t d) { return d > kMostDim / (1 << 16); }))
    return too_large(op, src[1]);
  if (spreads) return one_shape(Dims{src[0], src[1] / (size * size), src[2] * size, src[3] * size});
  return one_shape(Dims{src[0], src[1] * size * size, src[2] / size, src[3] / size});
}

/// A view with stride 0 along broadcast axes, copied once.
Status place_expand(Placement& pass, std::uint32_t op) {
  const ProgramOp& expand = pass.program().ops[op];
  const Dims& out = pass.dims(expand.outputs[0]);
  const SlotId src = pass.need(expand.inputs[0], pass.primary_of(expand.inputs[0]),
                               Placement::Density::kStrided, op);
  const Slot from = pass.graph().slots[src];
  Slot view = from;
  view.dims = out;
  view.strides = Dims(out.size(), 0);
  const std::size_t skip = out.size() - from.dims.size();
  for (std::size_t i = 0; i < from.dims.size(); ++i)
    if (from.dims[i] != 1) view.strides[skip + i] = from.strides[i];
  pass.set_value(expand.outputs[0], Layout::kPlain,
                 pass.convert(pass.add_slot(view), Layout::kPlain, op));
  return {};
}

/// The source of a block move seen with six dims, in the order of the result's dims.
struct BlockView {
  std::int64_t sizes[6];
  std::size_t from_dim[6];    // the dim of src that it is a part of
  std::int64_t step[6];       // elements of that dim
  std::size_t channel_parts;  // of the six, how many make up the result's channels
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

/// depth_to_space and its inverse: one copy between views of six dims; channels-last stays so.
Status place_blocks(Placement& pass, std::uint32_t op) {
  const ProgramOp& blocks = pass.program().ops[op];
  const auto params = CTXGEN_TRY(decode<BlocksParams>(blocks));
  const Layout layout = pass.primary_of(blocks.inputs[0]);
  const SlotId src = pass.need(blocks.inputs[0], layout, Placement::Density::kStrided, op);
  const Slot from = pass.graph().slots[src];
  const BlockView seen = block_view(params.form, from.dims, params.size);
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
  const SlotId moved = pass.convert(pass.add_slot(view), Layout::kPlain, op);
  Slot result = pass.graph().slots[moved];
  result.dims = pass.dims(blocks.outputs[0]);
  result.strides = strides_of(layout, result.dims);
  pass.set_value(blocks.outputs[0], layout, pass.add_slot(result));
  return {};
}

}  // namespace

constinit const KindRow kExpandRow{
    .name = kind::kExpand,
    .number = 27,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true},
    .types = check_movable_types,
    .shape = expand_shape,
    .place = place_expand,
    .build = nullptr,
};

constinit const KindRow kBlocksRow{
    .name = kind::kBlocks,
    .number = 30,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .exact = true, .reads_views = true},
    .types = check_f32_types,
    .shape = blocks_shape,
    .place = place_blocks,
    .build = nullptr,
};

}  // namespace ctxgen::onednn
