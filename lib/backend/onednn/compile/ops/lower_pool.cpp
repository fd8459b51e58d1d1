#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"
#include "window_attributes.h"

namespace ctxgen::onednn {

namespace {

Refusal check_spatial_rank(const NodeView& n) {
  const std::size_t rank = n.rank(0);
  if (rank >= 3 && rank <= 5) return std::nullopt;
  return std::format("rank {}, expected 3 to 5 (1 to 3 spatial dims)", rank);
}

Read<WindowAttributes> read_pool(const NodeView& n) {
  // Maxima of integers are integers.
  const bool maximum = n.node().op_type == "MaxPool";
  if (Refusal refusal = maximum ? require_movable(n) : require_f32(n, {0})) {
    return std::unexpected(*refusal);
  }
  if (n.input_value(0).type.element == DataType::kBool) return refuse("element type bool");
  CTXGEN_REFUSE(check_spatial_rank(n));
  const std::size_t spatial_rank = n.rank(0) - 2;
  WindowAttributes window = CTXGEN_TRY(read_window(n, spatial_rank, {}));
  for (std::size_t i = 0; i < window.pads.size(); ++i) {
    if (window.pads[i] >= window.kernel[i % spatial_rank]) {
      return refuse("pad {} is not smaller than the kernel", window.pads[i]);
    }
  }
  return window;
}

Status lower_pool(const NodeView& n, ProgramBuilder& builder, std::string_view mode) {
  const WindowAttributes window = CTXGEN_TRY(accepted(read_pool(n), n));
  ProgramOp op = builder.op(kind::kPool, n);
  encode(PoolParams{.mode = std::string(mode),
                    .kernel = window.kernel,
                    .window = window,
                    .ceil_mode = n.node().int_or("ceil_mode", 0) != 0},
         op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

}  // namespace

Refusal check_max_pool(const NodeView& n) {
  // storage_order says how indices are counted; without indices it has no effect.
  CTXGEN_REFUSE(require_one_output(n));
  return refusal_of(read_pool(n));
}

Status lower_max_pool(const NodeView& n, ProgramBuilder& builder) {
  return lower_pool(n, builder, "max");
}

Refusal check_average_pool(const NodeView& n) {
  // Before opset 19 a window that ceil_mode lets hang over the padding was divided by its whole
  // size; oneDNN counts what is inside the padding, as the operator says from 19 on.
  if (n.node().opset < 19 && n.node().int_or("ceil_mode", 0) != 0 &&
      n.node().int_or("count_include_pad", 0) != 0)
    return "ceil_mode with count_include_pad below opset 19";
  return refusal_of(read_pool(n));
}

Status lower_average_pool(const NodeView& n, ProgramBuilder& builder) {
  const bool include = n.node().int_or("count_include_pad", 0) != 0;
  return lower_pool(n, builder, include ? "avg_include" : "avg_exclude");
}

Refusal check_global_pool(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return refusal;
  return check_spatial_rank(n);
}

Status lower_global_pool(const NodeView& n, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kGlobalPool, n);
  encode(GlobalPoolParams{.mode = n.node().op_type == "GlobalMaxPool" ? "max" : "avg"}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
