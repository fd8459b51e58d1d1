#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../quantized_constant.h"
#include "patterns.h"
#include "walk.h"

// A QuantizeLinear to 16 bits and the DequantizeLinear that alone reads it, as ONNX Runtime's quantize_static
// writes between operators: real numbers rounded to steps. Nothing is stored as 16-bit integers, since float32
// holds all of them: operators between such pairs compute in float32, and their 8-bit weights stay as they are.
namespace ctxgen::onednn {

namespace {

struct WideSteps {
  float scale = 1;
  std::int32_t zero = 0, low = 0, high = 0;
  bool operator==(const WideSteps&) const = default;
};

/// The element of a tensor that has one, at any address: files do not align what they hold.
template <class T>
T only_element(const Tensor& tensor) {
  T value;
  std::memcpy(&value, tensor.bytes().data(), sizeof value);
  return value;
}

/// One scale, and one zero point of 16 bits, which says the type.
std::optional<WideSteps> read_wide_steps(const NodeView& n) {
  if (!n.has_input(1) || !n.has_input(2) || n.node().int_or("block_size", 0) != 0)
    return std::nullopt;
  const std::int64_t precision = n.node().int_or("precision", 0);
  const Tensor *scale = n.constant(1), *zero = n.constant(2);
  if (scale == nullptr || zero == nullptr || scale->type() != DataType::kFloat ||
      scale->rank() > 1 || scale->element_count() != 1 || zero->rank() > 1 ||
      zero->element_count() != 1 ||
      (precision != 0 && precision != static_cast<int>(DataType::kFloat)))
    return std::nullopt;
  WideSteps steps{.scale = only_element<float>(*scale)};
  if (!(steps.scale > 0) || !std::isfinite(steps.scale)) return std::nullopt;
  if (zero->type() == DataType::kUint16) {
    steps.zero = only_element<std::uint16_t>(*zero);
    steps.high = 65535;
  } else if (zero->type() == DataType::kInt16) {
    steps.zero = only_element<std::int16_t>(*zero);
    steps.low = -32768;
    steps.high = 32767;
  } else {
    return std::nullopt;
  }
  const std::int64_t type = n.node().int_or("output_dtype", 0);
  const bool quantizes = n.node().op_type == "QuantizeLinear";
  if (quantizes && type != 0 && type != static_cast<int>(zero->type())) return std::nullopt;
  return steps;
}

bool is_float(const PatternWalk& walk, ValueId value) {
  return walk.is_data(value) && walk.graph().value(value).type.element == DataType::kFloat;
}

/// The DequantizeLinear that alone reads `value`.
NodeId only_dequantize(const PatternWalk& walk, ValueId value) {
  const Value& steps = walk.graph().value(value);
  if (steps.is_output || steps.consumers.size() != 1) return {};
  const Node& reader = walk.node(steps.consumers[0]);
  const bool known = is_onnx_or_microsoft(reader) && reader.op_type == "DequantizeLinear" &&
                     reader.captures.empty() && reader.input(0) == value;
  return known ? steps.consumers[0] : NodeId{};
}

}  // namespace

std::optional<PatternMatch> match_wide_steps(const GraphView& view, NodeId quantize) {
  PatternWalk walk(view);
  const Node& node = walk.node(quantize);
  if (!is_onnx_or_microsoft(node) || node.outputs.size() != 1 || !node.output(0).valid())
    return std::nullopt;
  const auto steps = read_wide_steps(NodeView(view, node));
  if (!steps || !is_float(walk, node.input(0))) return std::nullopt;
  const NodeId dequantize = only_dequantize(walk, node.output(0));
  if (!dequantize.valid()) return std::nullopt;
  const Node& last = walk.node(dequantize);
  if (read_wide_steps(NodeView(view, last)) != steps || !is_float(walk, last.output(0)))
    return std::nullopt;
  walk.take(quantize);
  walk.take(dequantize);
  PatternMatch match;
  match.nodes = walk.nodes();
  match.kind = kind::kEltwise;
  match.alg = "round";
  match.src = node.input(0);
  match.result = last.output(0);
  match.scale = node.input(1);
  match.anchor = quantize;
  return match;
}

Status lower_wide_steps(const GraphView& view, const PatternMatch& match, ProgramBuilder& builder) {
  const NodeView n(view, view.graph().node(match.anchor));
  const auto steps = read_wide_steps(n);
  if (!steps) return fail(ErrorCode::kInternal, "{}: no steps of 16 bits", n.node().describe());
  const std::string& name = view.graph().value(match.result).name;
  const std::uint32_t result = builder.value(match.result);
  const auto between = [&](const char* what) {
    return builder.temporary(std::format("{}/{}", name, what), builder.at(result).dims);
  };
  const std::uint32_t real = between("steps"), rounded = between("rounded"), held = between("held");
  builder.add_binary(n, "div", builder.operand(match.src), builder.operand(match.scale), real);
  builder.add_eltwise(n, "round", 0.0F, 0.0F, Operand::value(real), rounded);
  builder.add_eltwise(n, "clip", static_cast<float>(steps->low - steps->zero),
                      static_cast<float>(steps->high - steps->zero), Operand::value(rounded), held);
  builder.add_eltwise(n, "linear", steps->scale, 0.0F, Operand::value(held), result);
  return {};
}

}  // namespace ctxgen::onednn
