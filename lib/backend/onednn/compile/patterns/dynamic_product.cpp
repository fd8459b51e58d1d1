#include <algorithm>
#include <array>
#include <utility>

#include "ctxgen/onednn/op_kinds.h"

#include "../ops/ops.h"
#include "../ops/quantized/byte_weights.h"
#include "patterns.h"
#include "walk.h"

// A MatMulInteger or ConvInteger whose sums a Cast and a Mul by (scale of the source * scale of the weights) make real,
// as ONNX Runtime's quantize_dynamic writes it: the scale of the source is a scalar that a run computes.
// Where it is constant, so is the product of the scales.
namespace ctxgen::onednn {

namespace {

/// The product that a pattern is about.
struct IntegerProduct {
  std::int64_t columns = 0;  // output channels of a convolution
  std::size_t after = 0;     // dims of the result after them
  bool on_onednn = false;    // with zero points that are constant: it is the library's
};

std::optional<IntegerProduct> integer_product(const NodeView& n) {
  if (n.node().opset < 10) return std::nullopt;
  if (n.node().op_type == "MatMulInteger") {
    const auto weights = read_byte_matmul(n);
    if (!weights || !n.node().attributes.empty()) return std::nullopt;
    return IntegerProduct{weights->matrix.n, 0, runs_matmul_on_onednn(n)};
  }
  const auto weights = read_byte_conv(n);
  constexpr std::array<std::string_view, 6> kKnown{"auto_pad",     "dilations", "group",
                                                   "kernel_shape", "pads",      "strides"};
  const bool known = std::ranges::all_of(n.node().attributes, [&](const Attribute& attribute) {
    return std::ranges::contains(kKnown, std::string_view(attribute.name));
  });
  if (!weights || !known) return std::nullopt;
  return IntegerProduct{weights->matrix.matrix.n, n.rank(0) - 2, runs_conv_on_onednn(n)};
}

/// A constant f32 number per column of the product, or one number if `or_one`, that does not raise the
/// result's rank.
bool is_vector(const GraphView& view, ValueId id, const IntegerProduct& product, bool or_one) {
  const Tensor* constant = id.valid() ? view.constant(id) : nullptr;
  if (constant == nullptr || constant->type() != DataType::kFloat) return false;
  const std::size_t rank = constant->rank();
  if (rank > (product.after == 0 ? 1 : product.after + 2)) return false;
  if (or_one && constant->element_count() == 1) return true;
  return constant->element_count() == product.columns && rank > product.after &&
         constant->dims()[rank - 1 - product.after] == product.columns;
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

/// What sums are multiplied by: both scales, or the constant that their product is.
bool take_scales(PatternWalk& walk, const GraphView& view, ValueId product,
                 const IntegerProduct& of, PatternMatch& match) {
  if (view.constant(product) != nullptr) {
    match.factors = product;
    return !of.on_onednn && is_vector(view, product, of, true);
  }
  const NodeId scales = walk.producer(product, "Mul");
  if (!scales.valid() || walk.only_consumer(product, "Mul") == NodeId{}) return false;
  const Node& node = walk.node(scales);
  if (node.inputs.size() != 2) return false;
  for (const auto& [value, constant] :
       {std::pair(node.inputs[0], node.inputs[1]), std::pair(node.inputs[1], node.inputs[0])}) {
    if (!is_number(view, value) || !is_vector(view, constant, of, true)) continue;
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
  const auto found = integer_product(n);
  if (!found) return std::nullopt;
  walk.take(product);
  const NodeId cast = walk.only_consumer(n.output(0), "Cast");
  if (!cast.valid() || walk.node(cast).int_or("to", 0) != static_cast<int>(DataType::kFloat))
    return std::nullopt;
  walk.take(cast);
  const ValueId sums = walk.node(cast).output(0);
  const NodeId scaled = walk.only_consumer(sums, "Mul");
  PatternMatch match;
  const ValueId scales = scaled.valid() ? walk.other(scaled, sums) : ValueId{};
  if (!scales.valid() || !take_scales(walk, view, scales, *found, match)) return std::nullopt;
  walk.take(scaled);
  match.result = walk.node(scaled).output(0);
  if (const NodeId add = walk.only_consumer(match.result, "Add"); add.valid()) {
    const ValueId bias = walk.other(add, match.result);
    if (is_vector(view, bias, *found, false)) {
      walk.take(add);
      match.shift = bias;
      match.result = walk.node(add).output(0);
    }
  }
  if (!walk.is_data(match.result)) return std::nullopt;
  match.nodes = walk.nodes();
  match.kind = n.node().op_type == "ConvInteger" ? kind::kByteConv : kind::kByteMatmul;
  match.anchor = product;
  match.src = n.input(0);
  return match;
}

Status lower_dynamic_product(const GraphView& view, const PatternMatch& match, ProgramOp op,
                             ProgramBuilder& builder) {
  const NodeView n(view, view.graph().node(match.anchor));
  const ByteOperands operands{
      .a = builder.operand(match.src),
      .zero = byte_operand(view, n.input(2), builder),
      .scale = match.scale.valid() ? builder.operand(match.scale) : Operand{},
      .scales = builder.operand(match.factors),
      .bias = match.shift.valid() ? builder.operand(match.shift) : Operand{}};
  const std::uint32_t result = builder.value(match.result);
  const auto internal = [&](const std::string& why) {
    return fail(ErrorCode::kInternal, "{}: {}", n.node().describe(), why);
  };
  if (match.kind == kind::kByteConv) {
    const auto conv = read_byte_conv(n);
    if (!conv) return internal(conv.error());
    return add_byte_conv(n, *conv, operands, std::move(op), result, builder);
  }
  const auto weights = read_byte_matmul(n);
  if (!weights) return internal(weights.error());
  return add_byte_matmul(n, 1, *weights, operands, std::move(op), result, builder);
}

}  // namespace ctxgen::onednn
