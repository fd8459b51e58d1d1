#include "graph/known_scalars.h"

#include <algorithm>
#include <string_view>

namespace ctxgen::plugin {
namespace {

// clang-format off: a list of words reads as a paragraph
/// Operators whose output has the shape that those of the inputs broadcast to; sorted.
constexpr std::string_view kElementwise[] = {
    "Abs", "Add", "And", "Cast", "Ceil", "Clip", "Div", "Equal", "Erf", "Exp", "Floor", "Greater", "GreaterOrEqual",
    "Identity", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow", "Reciprocal", "Relu",
    "Round", "Sigmoid", "Sign", "Sqrt", "Sub", "Tanh", "Where"};
// clang-format on
static_assert(std::ranges::is_sorted(kElementwise));

bool has_rank(const Graph& graph, ValueId id, std::size_t rank) {
  if (!id.valid()) return false;
  const ValueType& type = graph.value(id).type;
  return type.is_tensor() && type.has_rank() && type.rank() == rank;
}

bool all_scalars(const Graph& graph, const Node& node) {
  const auto fits = [&](ValueId id) { return !id.valid() || has_rank(graph, id, 0); };
  return node.input(0).valid() && std::ranges::all_of(node.inputs, fits);
}

/// Over all axes, since none is named, and without keeping them.
bool reduces_all(const Node& node) {
  return node.op_type.view().starts_with("Reduce") && node.int_or("keepdims", 1) == 0 &&
         !node.input(1).valid() && !node.ints("axes") &&
         node.int_or("noop_with_empty_axes", 0) == 0;
}

/// Of a vector of one element, whose axis is named or found by its size.
bool squeezes_one(const Graph& graph, const Node& node) {
  const ValueId data = node.input(0), axes = node.input(1);
  if (!has_rank(graph, data, 1) || graph.value(data).type.shape->front() != Dim::fixed(1))
    return false;
  const Tensor* constant = axes.valid() ? graph.value(axes).constant() : nullptr;
  const auto listed = node.ints("axes");
  return (!axes.valid() && (!listed || listed->size() == 1)) ||
         (constant != nullptr && constant->element_count() == 1);
}

}  // namespace

bool is_scalar(const Graph& graph, const Node& node, std::size_t output) {
  const std::string_view type = node.op_type.view();
  if (!node.domain.view().empty()) return false;
  if (type == "DynamicQuantizeLinear") return output != 0;
  if (type == "Size" || reduces_all(node)) return true;
  if (type == "Gather")
    return has_rank(graph, node.input(0), 1) && has_rank(graph, node.input(1), 0);
  if (type == "Squeeze") return squeezes_one(graph, node);
  return std::ranges::binary_search(kElementwise, type) && all_scalars(graph, node);
}

}  // namespace ctxgen::plugin
