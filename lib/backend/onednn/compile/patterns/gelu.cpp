#include <cmath>
#include <numbers>

#include "ctxgen/onednn/op_kinds.h"

#include "patterns.h"
#include "walk.h"

namespace ctxgen::onednn {

namespace {

/// Halves its operand: x * 0.5 or x / 2. Gives x.
ValueId halved(const PatternWalk& walk, NodeId id) {
  if (!id.valid()) return {};
  if (walk.node(id).op_type == "Mul") return walk.without_scalar(id, 0.5);
  if (walk.node(id).op_type == "Div") return walk.without_scalar(id, 2.0);
  return {};
}

/// From 1 + f(x), the product with x and 0.5 in any of the orders that exporters write:
/// (x * (1 + f)) * 0.5, x * ((1 + f) * 0.5), (x * 0.5) * (1 + f). Gives the result.
ValueId finish(PatternWalk& walk, ValueId sum, ValueId x) {
  const NodeId first = walk.only_consumer(sum, "");
  if (!first.valid()) return {};
  walk.take(first);
  const ValueId product = walk.node(first).output(0);
  if (halved(walk, first) == sum) {
    const NodeId second = walk.only_consumer(product, "Mul");
    if (!second.valid() || walk.other(second, product) != x) return {};
    walk.take(second);
    return walk.node(second).output(0);
  }
  if (walk.node(first).op_type != "Mul") return {};
  const ValueId factor = walk.other(first, sum);
  if (factor == x) {
    const NodeId second = walk.only_consumer(product, "");
    if (!second.valid() || halved(walk, second) != product) return {};
    walk.take(second);
    return walk.node(second).output(0);
  }
  const NodeId half = factor.valid() ? walk.graph().value(factor).producer : NodeId{};
  if (!half.valid() || !walk.only_consumer(factor, "").valid() || halved(walk, half) != x) {
    return {};
  }
  walk.take(half);
  return product;
}

/// The one that follows f(x): 1 + f(x).
ValueId plus_one(PatternWalk& walk, ValueId value) {
  const NodeId add = walk.only_consumer(value, "Add");
  if (!add.valid() || walk.without_scalar(add, 1.0) != value) return {};
  walk.take(add);
  return walk.node(add).output(0);
}

std::optional<PatternMatch> made(const PatternWalk& walk, ValueId x, ValueId result,
                                 std::string_view alg) {
  if (!result.valid() || !walk.is_data(x) || !walk.is_data(result)) return std::nullopt;
  PatternMatch match;
  match.nodes = walk.nodes();
  match.kind = kind::kEltwise;
  match.alg = alg;
  match.src = x;
  match.result = result;
  return match;
}

/// x * x * x or x^3, whose node reads x. Gives x.
ValueId cubed(PatternWalk& walk, ValueId cube) {
  if (const NodeId pow = walk.producer(cube, "Pow"); pow.valid()) {
    const auto exponent = walk.scalar(walk.node(pow).input(1));
    if (exponent != 3.0F || !walk.only_consumer(cube, "").valid()) return {};
    walk.take(pow);
    return walk.node(pow).input(0);
  }
  const NodeId outer = walk.producer(cube, "Mul");
  if (!outer.valid() || !walk.only_consumer(cube, "").valid()) return {};
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId square = walk.node(outer).input(i), x = walk.node(outer).input(1 - i);
    const NodeId inner = walk.producer(square, "Mul");
    if (!inner.valid() || !walk.only_consumer(square, "").valid()) continue;
    if (walk.node(inner).input(0) != x || walk.node(inner).input(1) != x) continue;
    walk.take(outer);
    walk.take(inner);
    return x;
  }
  return {};
}

/// From the argument of tanh, sqrt(2/pi) * (x + 0.044715 * x^3), back to x.
ValueId tanh_argument(PatternWalk& walk, ValueId argument) {
  const NodeId scale = walk.producer(argument, "Mul");
  if (!scale.valid()) return {};
  const ValueId inner = walk.without_scalar(scale, std::sqrt(2.0 / std::numbers::pi));
  const NodeId add = walk.producer(inner, "Add");
  if (!add.valid() || !walk.only_consumer(argument, "Tanh").valid()) return {};
  if (!walk.only_consumer(inner, "Mul").valid()) return {};
  walk.take(scale);
  walk.take(add);
  for (std::size_t i = 0; i < 2; ++i) {
    const ValueId term = walk.node(add).input(i), x = walk.node(add).input(1 - i);
    const NodeId factor = walk.producer(term, "Mul");
    if (!factor.valid() || !walk.only_consumer(term, "Add").valid()) continue;
    const ValueId cube = walk.without_scalar(factor, 0.044715);
    if (!cube.valid() || cubed(walk, cube) != x) continue;
    walk.take(factor);
    return x;
  }
  return {};
}

}  // namespace

std::optional<PatternMatch> match_gelu_erf(const GraphView& view, NodeId erf) {
  PatternWalk walk(view);
  walk.take(erf);
  const ValueId argument = walk.node(erf).input(0);
  const ValueId value = walk.node(erf).output(0);
  if (!walk.only_consumer(argument, "Erf").valid()) return std::nullopt;
  const NodeId scale = walk.graph().value(argument).producer;
  if (!scale.valid() || !walk.node(scale).domain.empty()) return std::nullopt;
  ValueId x;
  if (walk.node(scale).op_type == "Div") x = walk.without_scalar(scale, std::numbers::sqrt2);
  if (walk.node(scale).op_type == "Mul") x = walk.without_scalar(scale, 1.0 / std::numbers::sqrt2);
  if (!x.valid()) return std::nullopt;
  walk.take(scale);
  const ValueId sum = plus_one(walk, value);
  return made(walk, x, sum.valid() ? finish(walk, sum, x) : ValueId{}, "gelu_erf");
}

std::optional<PatternMatch> match_gelu_tanh(const GraphView& view, NodeId tanh) {
  PatternWalk walk(view);
  walk.take(tanh);
  const ValueId x = tanh_argument(walk, walk.node(tanh).input(0));
  if (!x.valid()) return std::nullopt;
  const ValueId sum = plus_one(walk, walk.node(tanh).output(0));
  return made(walk, x, sum.valid() ? finish(walk, sum, x) : ValueId{}, "gelu_tanh");
}

}  // namespace ctxgen::onednn
