#include <algorithm>
#include <utility>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops/quantized/byte_weights.h"
#include "patterns.h"
#include "walk.h"

// A MatMulInteger whose sums a Cast and a Mul by (scale of the source * scale of the weights) make real,
// as ONNX Runtime's quantize_dynamic writes it: the scale of the source is a scalar that a run computes.
namespace ctxgen::onednn {

namespace {

/// A constant f32 vector of `count` elements, or of one if `or_one`; it must not raise the result's rank.
bool is_vector(const GraphView& view, ValueId id, std::int64_t count, bool or_one) {
  const Tensor* constant = id.valid() ? view.constant(id) : nullptr;
  if (constant == nullptr || constant->type() != DataType::kFloat || constant->rank() > 1)
    return false;
  return constant->element_count() == count || (or_one && constant->element_count() == 1);
}

/// A value of float32 that surely is one number and no constant.
bool is_number(const GraphView& view, ValueId id) {
  if (!id.valid() || view.constant(id) != nullptr) return false;
  const ValueType& type = view.graph().value(id).type;
  return type.is_tensor() && type.element == DataType::kFloat && type.has_rank() &&
         type.rank() <= 1 && std::ranges::all_of(*type.shape, [](const Dim& dim) {
           return dim.is_fixed() && dim.value() == 1;
         });
}

/// The node that multiplies both scales, whose product is `product`.
bool take_scales(PatternWalk& walk, const GraphView& view, ValueId product, std::int64_t columns,
                 PatternMatch& match) {
  const NodeId scales = walk.producer(product, "Mul");
  if (!scales.valid() || walk.only_consumer(product, "Mul") == NodeId{}) return false;
  const Node& node = walk.node(scales);
  if (node.inputs.size() != 2) return false;
  for (const auto& [value, constant] :
       {std::pair(node.inputs[0], node.inputs[1]), std::pair(node.inputs[1], node.inputs[0])}) {
    if (!is_number(view, value) || !is_vector(view, constant, columns, true)) continue;
    match.scale = value;
    match.factors = constant;
    walk.take(scales);
    return true;
  }
  return false;
}

}  // namespace

std::optional<PatternMatch> match_dynamic_product(const GraphView& view, NodeId product) {
  PatternWalk walk(view);
  const NodeView n(view, walk.node(product));
  if (n.node().opset < 10 || !n.node().attributes.empty()) return std::nullopt;
  const auto weights = read_byte_matmul(n);
  if (!weights) return std::nullopt;
  const std::int64_t columns = weights->matrix.n;
  walk.take(product);
  const NodeId cast = walk.only_consumer(n.output(0), "Cast");
  if (!cast.valid() || walk.node(cast).int_or("to", 0) != static_cast<int>(DataType::kFloat))
    return std::nullopt;
  walk.take(cast);
  const ValueId sums = walk.node(cast).output(0);
  const NodeId scaled = walk.only_consumer(sums, "Mul");
  PatternMatch match;
  if (!scaled.valid() || !take_scales(walk, view, walk.other(scaled, sums), columns, match))
    return std::nullopt;
  walk.take(scaled);
  match.result = walk.node(scaled).output(0);
  if (const NodeId add = walk.only_consumer(match.result, "Add"); add.valid()) {
    const ValueId bias = walk.other(add, match.result);
    if (is_vector(view, bias, columns, false)) {
      walk.take(add);
      match.shift = bias;
      match.result = walk.node(add).output(0);
    }
  }
  if (!walk.is_data(match.result)) return std::nullopt;
  match.nodes = walk.nodes();
  match.kind = kind::kByteMatmul;
  match.anchor = product;
  match.src = n.input(0);
  return match;
}

Status lower_dynamic_product(const GraphView& view, const PatternMatch& match, ProgramOp op,
                             ProgramBuilder& builder) {
  const NodeView n(view, view.graph().node(match.anchor));
  const auto weights = read_byte_matmul(n);
  if (!weights) return fail(ErrorCode::kInternal, "{}: {}", n.node().describe(), weights.error());
  return add_byte_matmul(n, 1, *weights,
                         {.a = builder.operand(match.src),
                          .zero = byte_operand(view, n.input(2), builder),
                          .scale = builder.operand(match.scale),
                          .scales = builder.operand(match.factors),
                          .bias = match.shift.valid() ? builder.operand(match.shift) : Operand{}},
                         std::move(op), builder.value(match.result), builder);
}

}  // namespace ctxgen::onednn
