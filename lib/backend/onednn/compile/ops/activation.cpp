#include <algorithm>
#include <array>
#include <limits>

#include "../op_row.h"
#include "ctxgen/onednn/op_kinds.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

/// An ONNX activation as an eltwise algorithm. Attribute names are those that set alpha and beta;
/// "" where the number is fixed.
struct Activation {
  std::string_view op_type, alg, alpha_name, beta_name;
  float alpha = 0.0F, beta = 0.0F;
};

constexpr Activation kActivations[] = {
    {"Abs", "abs", "", ""},
    {"Elu", "elu", "alpha", "", 1.0F},
    {"Exp", "exp", "", ""},
    {"HardSigmoid", "hardsigmoid", "alpha", "beta", 0.2F, 0.5F},
    {"HardSwish", "hardswish", "", "", 1.0F / 6.0F, 0.5F},
    {"LeakyRelu", "relu", "alpha", "", 0.01F},
    {"Log", "log", "", ""},
    {"Mish", "mish", "", ""},
    {"Neg", "linear", "", "", -1.0F},
    {"Reciprocal", "pow", "", "", 1.0F, -1.0F},
    {"Relu", "relu", "", ""},
    {"Sigmoid", "sigmoid", "", ""},
    {"Softplus", "soft_relu", "", "", 1.0F},
    {"Sqrt", "sqrt", "", ""},
    {"Swish", "swish", "alpha", "", 1.0F},
    {"Tanh", "tanh", "", ""},
};

struct Eltwise {
  std::string_view alg;
  float alpha = 0.0F, beta = 0.0F;
  float factor = 1.0F;  // of the result
};

Read<Eltwise> read_activation(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Node& node = n.node();
  if (node.op_type == "Gelu") {
    const std::string_view form = node.string_or("approximate", "none");
    if (form == "none") return Eltwise{.alg = "gelu_erf"};
    if (form == "tanh") return Eltwise{.alg = "gelu_tanh"};
    return refuse("approximate is \"{}\"", form);
  }
  if (node.op_type == "Selu") {
    const bool old = node.opset < 6;
    return Eltwise{.alg = "elu",
                   .alpha = node.float_or("alpha", old ? 1.6732F : 1.67326319217681884765625F),
                   .factor = node.float_or("gamma", old ? 1.0507F : 1.05070102214813232421875F)};
  }
  const auto* found = std::ranges::find(kActivations, node.op_type, &Activation::op_type);
  if (found == std::end(kActivations)) return refuse("operator has no oneDNN lowering");
  Eltwise eltwise{.alg = found->alg, .alpha = found->alpha, .beta = found->beta};
  if (!found->alpha_name.empty()) eltwise.alpha = node.float_or(found->alpha_name, found->alpha);
  if (!found->beta_name.empty()) eltwise.beta = node.float_or(found->beta_name, found->beta);
  return eltwise;
}

/// The slope with dims that broadcast in ONNX's order from the right.
Read<Tensor> read_slope(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  const Tensor* slope = CTXGEN_TRY(constant_f32(n, 1, "slope input"));
  const std::size_t rank = n.rank(0);
  if (slope->rank() > rank) return refuse("slope has rank {} for rank {}", slope->rank(), rank);
  if (n.node().opset >= 7 || slope->element_count() == 1) return *slope;
  // Before opset 7 a slope had one value per channel.
  if (rank < 2 || slope->rank() != 1) return refuse("slope has rank {}", slope->rank());
  Dims dims(rank - 1, 1);
  dims[0] = slope->element_count();
  return slope->with_dims(dims);
}

}  // namespace

Refusal check_activation(const NodeView& n) { return refusal_of(read_activation(n)); }

Status lower_activation(const NodeView& n, ProgramBuilder& builder) {
  const Eltwise eltwise = CTXGEN_TRY(accepted(read_activation(n), n));
  ProgramOp op = builder.op(kind::kEltwise, n);
  set_eltwise(op, eltwise.alg, eltwise.alpha, eltwise.beta);
  if (eltwise.factor != 1.0F) op.post_ops.push_back(eltwise_step("linear", eltwise.factor));
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_prelu(const NodeView& n) { return refusal_of(read_slope(n)); }

/// One slope: a relu. Several: max(x, 0) + slope * min(x, 0) in two passes over the data.
Status lower_prelu(const NodeView& n, ProgramBuilder& builder) {
  const Tensor slope = CTXGEN_TRY(accepted(read_slope(n), n));
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  if (slope.element_count() == 1) {
    builder.add_eltwise(n, "relu", floats_of(slope)[0], 0.0F, src, result);
    return {};
  }
  const std::uint32_t positive =
      builder.temporary(n.output_value(0).name + "/positive", builder.at(result).dims);
  builder.add_eltwise(n, "relu", 0.0F, 0.0F, src, positive);
  ProgramOp negative = builder.op(kind::kEltwise, n);
  set_eltwise(negative, "clip", std::numeric_limits<float>::lowest(), 0.0F);
  const Operand factor = builder.weight(n.input_value(1).name, slope);
  negative.post_ops.push_back({.kind = "mul", .alpha = 0.0F, .beta = 0.0F, .operand = factor});
  negative.post_ops.push_back(
      {.kind = "add", .alpha = 0.0F, .beta = 0.0F, .operand = Operand::value(positive)});
  builder.add(std::move(negative), {src}, result);
  return {};
}

}  // namespace ctxgen::onednn
