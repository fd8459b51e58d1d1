#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "patterns.h"
#include "walk.h"

namespace ctxgen::onednn {

namespace {

/// Whether a ReduceMean keeps dims and reduces the last axis only.
bool means_last_axis(const GraphView& view, NodeId id) {
  const NodeView n(view, view.graph().node(id));
  if (n.node().int_or("keepdims", 1) != 1) return false;
  std::vector<std::int64_t> axes;
  if (n.has_input(1)) {
    const auto read = constant_ints(n, 1, "axes");
    if (!read) return false;
    axes = *read;
  } else if (const auto given = n.node().ints("axes")) {
    axes = list_of(*given);
  }
  if (!n.has_input(0)) return false;
  const ValueType& type = n.input_value(0).type;
  if (axes.size() != 1 || !type.has_rank()) return false;
  return axes[0] == -1 || axes[0] + 1 == static_cast<std::int64_t>(type.rank());
}

/// Whether the node is Pow(value, 2) or Mul(value, value).
bool is_square(const PatternWalk& walk, NodeId id, ValueId value) {
  const Node& node = walk.node(id);
  if (!node.domain.empty() || node.input(0) != value) return false;
  if (node.op_type == "Pow") return walk.scalar(node.input(1)) == 2.0F;
  return node.op_type == "Mul" && node.input(1) == value;
}

/// The square of `value`: Pow(value, 2) or Mul(value, value). Gives the node.
NodeId square_of(const PatternWalk& walk, ValueId value) {
  for (const NodeId id : walk.graph().value(value).consumers)
    if (is_square(walk, id, value)) return id;
  return {};
}

/// A constant vector of the last dim's length that multiplies or is added to `value`.
ValueId vector_operand(const GraphView& view, const PatternWalk& walk, NodeId id, ValueId value) {
  const ValueId operand = walk.other(id, value);
  const Tensor* tensor = operand.valid() ? view.constant(operand) : nullptr;
  const ValueType& type = view.graph().value(value).type;
  if (tensor == nullptr || !is_real(tensor->type()) || tensor->rank() != 1) return {};
  const Dim width = type.has_rank() && type.rank() > 0 ? type.shape->back() : Dim{};
  return width == Dim::fixed(tensor->dims()[0]) ? operand : ValueId{};
}

/// Difference d = x - mean and result d / sqrt(mean(d^2) + epsilon).
struct Normalized {
  ValueId x, result;
  float epsilon = 0.0F;
};

/// The consumers of `value` must all be nodes of the walk: then nothing else needs it.
bool is_interior(const PatternWalk& walk, ValueId value) {
  const Value& v = walk.graph().value(value);
  const std::vector<NodeId> nodes = walk.nodes();
  return !v.is_output && std::ranges::all_of(v.consumers, [&](NodeId id) {
    return std::ranges::binary_search(nodes, id);
  });
}

/// From the difference: Pow -> ReduceMean -> Add epsilon -> Sqrt -> Div.
std::optional<Normalized> match_deviation(const GraphView& view, PatternWalk& walk, ValueId diff) {
  if (!diff.valid()) return std::nullopt;
  const NodeId square = square_of(walk, diff);
  if (!square.valid()) return std::nullopt;
  const NodeId mean = walk.only_consumer(walk.node(square).output(0), "ReduceMean");
  if (!mean.valid() || !means_last_axis(view, mean)) return std::nullopt;
  const ValueId variance = walk.node(mean).output(0);
  const NodeId add = walk.only_consumer(variance, "Add");
  if (!add.valid()) return std::nullopt;
  const auto epsilon = walk.scalar(walk.other(add, variance));
  const NodeId root = walk.only_consumer(walk.node(add).output(0), "Sqrt");
  if (!epsilon || !root.valid()) return std::nullopt;
  const ValueId deviation = walk.node(root).output(0);
  const NodeId divide = walk.only_consumer(deviation, "Div");
  if (!divide.valid() || walk.node(divide).input(0) != diff ||
      walk.node(divide).input(1) != deviation) {
    return std::nullopt;
  }
  for (const NodeId id : {square, mean, add, root, divide}) walk.take(id);
  return Normalized{.x = {}, .result = walk.node(divide).output(0), .epsilon = *epsilon};
}

}  // namespace

/// ReduceMean -> Sub -> {Pow -> ReduceMean -> Add -> Sqrt} -> Div -> Mul -> Add, as exporters wrote
/// LayerNormalization before opset 17.
std::optional<PatternMatch> match_layer_norm(const GraphView& view, NodeId mean) {
  PatternWalk walk(view);
  if (!means_last_axis(view, mean)) return std::nullopt;
  const ValueId x = walk.node(mean).input(0), average = walk.node(mean).output(0);
  const NodeId subtract = walk.only_consumer(average, "Sub");
  if (!walk.is_data(x) || !subtract.valid() || walk.node(subtract).input(0) != x) {
    return std::nullopt;
  }
  const ValueId diff = walk.node(subtract).output(0);
  walk.take(mean);
  walk.take(subtract);
  const auto normalized = match_deviation(view, walk, diff);
  if (!normalized || !is_interior(walk, diff)) return std::nullopt;
  PatternMatch match;
  match.kind = kind::kLayerNorm;
  match.src = x;
  match.result = normalized->result;
  match.epsilon = normalized->epsilon;
  const NodeId scale = walk.only_consumer(match.result, "Mul");
  if (scale.valid()) match.scale = vector_operand(view, walk, scale, match.result);
  if (match.scale.valid()) {
    walk.take(scale);
    match.result = walk.node(scale).output(0);
    const NodeId shift = walk.only_consumer(match.result, "Add");
    if (shift.valid()) match.shift = vector_operand(view, walk, shift, match.result);
    if (match.shift.valid()) {
      walk.take(shift);
      match.result = walk.node(shift).output(0);
    }
  }
  if (!walk.is_data(match.result)) return std::nullopt;
  match.nodes = walk.nodes();
  return match;
}

/// {Pow -> ReduceMean -> Add -> Sqrt} -> Div, or a Mul by the reciprocal -> Mul, as exporters write
/// RMSNormalization.
std::optional<PatternMatch> match_rms_norm(const GraphView& view, NodeId mean) {
  PatternWalk walk(view);
  if (!means_last_axis(view, mean)) return std::nullopt;
  const ValueId squares = walk.node(mean).input(0);
  const NodeId square = squares.valid() ? walk.graph().value(squares).producer : NodeId{};
  if (!square.valid() || walk.only_consumer(squares, "ReduceMean") != mean) return std::nullopt;
  const ValueId x = walk.node(square).input(0);
  if (!walk.is_data(x) || !is_square(walk, square, x)) return std::nullopt;
  const ValueId average = walk.node(mean).output(0);
  const NodeId add = walk.only_consumer(average, "Add");
  if (!add.valid()) return std::nullopt;
  const auto epsilon = walk.scalar(walk.other(add, average));
  const NodeId root = walk.only_consumer(walk.node(add).output(0), "Sqrt");
  if (!epsilon || !root.valid()) return std::nullopt;
  for (const NodeId id : {square, mean, add, root}) walk.take(id);
  const ValueId deviation = walk.node(root).output(0);
  const NodeId inverse = walk.only_consumer(deviation, "");
  if (!inverse.valid()) return std::nullopt;
  walk.take(inverse);
  NodeId scaled = inverse;  // x / deviation
  if (walk.node(inverse).op_type == "Reciprocal" ||
      (walk.node(inverse).op_type == "Div" && walk.scalar(walk.node(inverse).input(0)) == 1.0F)) {
    const ValueId factor = walk.node(inverse).output(0);
    scaled = walk.only_consumer(factor, "Mul");
    if (!scaled.valid() || walk.other(scaled, factor) != x) return std::nullopt;
    walk.take(scaled);
  } else if (walk.node(inverse).op_type != "Div" || walk.node(inverse).input(0) != x) {
    return std::nullopt;
  }
  PatternMatch match;
  match.kind = kind::kRmsNorm;
  match.src = x;
  match.epsilon = *epsilon;
  const ValueId normalized = walk.node(scaled).output(0);
  const NodeId gain = walk.only_consumer(normalized, "Mul");
  if (!gain.valid()) return std::nullopt;
  match.scale = vector_operand(view, walk, gain, normalized);
  walk.take(gain);
  match.result = walk.node(gain).output(0);
  if (!match.scale.valid() || !walk.is_data(match.result)) return std::nullopt;
  match.nodes = walk.nodes();
  return match;
}

}  // namespace ctxgen::onednn
