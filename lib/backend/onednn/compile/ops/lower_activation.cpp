#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
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
    {"Ceil", "ceil", "", ""},
    {"Cos", "cos", "", ""},
    {"Elu", "elu", "alpha", "", 1.0F},
    {"Erf", "erf", "", ""},
    {"Exp", "exp", "", ""},
    {"Floor", "floor", "", ""},
    {"HardSigmoid", "hardsigmoid", "alpha", "beta", 0.2F, 0.5F},
    {"HardSwish", "hardswish", "", "", 1.0F / 6.0F, 0.5F},
    {"LeakyRelu", "relu", "alpha", "", 0.01F},
    {"Log", "log", "", ""},
    {"Mish", "mish", "", ""},
    {"Neg", "linear", "", "", -1.0F},
    {"QuickGelu", "swish", "alpha", "", 1.702F},
    {"Reciprocal", "pow", "", "", 1.0F, -1.0F},
    {"Relu", "relu", "", ""},
    {"Round", "round", "", ""},
    {"Sigmoid", "sigmoid", "", ""},
    {"Sign", "sign", "", ""},
    {"Sin", "sin", "", ""},
    {"Softplus", "soft_relu", "", "", 1.0F},
    {"Softsign", "softsign", "", ""},
    {"Sqrt", "sqrt", "", ""},
    {"Swish", "swish", "alpha", "", 1.0F},
    {"Tanh", "tanh", "", ""},
    {"ThresholdedRelu", "threshold", "alpha", "", 1.0F},
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
  if (node.op_type == "Celu") {
    // alpha * elu(x / alpha): the post-op multiplies, the op below divides.
    const float alpha = node.float_or("alpha", 1.0F);
    if (!(alpha > 0.0F) || !std::isnormal(1.0F / alpha)) return refuse("alpha is {}", alpha);
    return Eltwise{.alg = "elu", .alpha = 1.0F, .beta = 1.0F / alpha, .factor = alpha};
  }
  if (node.op_type == "Selu") {
    const bool old = node.opset < 6;
    return Eltwise{.alg = "elu",
                   .alpha = node.float_or("alpha", old ? 1.6732F : 1.67326319217681884765625F),
                   .factor = node.float_or("gamma", old ? 1.0507F : 1.05070102214813232421875F)};
  }
  const auto* found = std::ranges::find(kActivations, node.op_type.view(), &Activation::op_type);
  if (found == std::end(kActivations)) return refuse("operator has no oneDNN lowering");
  Eltwise eltwise{.alg = found->alg, .alpha = found->alpha, .beta = found->beta};
  if (!found->alpha_name.empty()) eltwise.alpha = node.float_or(found->alpha_name, found->alpha);
  if (!found->beta_name.empty()) eltwise.beta = node.float_or(found->beta_name, found->beta);
  return eltwise;
}

/// The slope, if it is constant with dims that broadcast in ONNX's order from the right.
Read<std::optional<Tensor>> read_slope(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return std::unexpected(*refusal);
  if (n.constant(0) != nullptr) return refuse("input is constant");
  const std::vector<Dim> src = n.input_dims(0), dims = n.input_dims(1);
  if (dims.size() > src.size())
    return refuse("slope has rank {} for rank {}", dims.size(), src.size());
  const Tensor* slope = n.constant(1);
  if (slope != nullptr && slope->element_count() == 1) return *slope;
  if (n.node().opset < 7) {
    // Before opset 7 a slope had one value per channel.
    if (slope == nullptr) return refuse("slope input is not constant");
    if (src.size() < 2 || slope->rank() != 1) return refuse("slope has rank {}", slope->rank());
    Dims aligned(src.size() - 1, 1);
    aligned[0] = slope->element_count();
    return slope->with_dims(aligned);
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& wide = src[src.size() - dims.size() + i];
    const bool fits = dims[i] == Dim::fixed(1) || (dims[i] == wide && !(wide == Dim{})) ||
                      (slope != nullptr && !wide.is_fixed());
    if (!fits) return refuse("slope does not broadcast to the input");
  }
  if (slope == nullptr) return std::optional<Tensor>();
  return *slope;
}

}  // namespace

Refusal check_activation(const NodeView& n) { return refusal_of(read_activation(n)); }

Status lower_activation(const NodeView& n, ProgramBuilder& builder) {
  const Eltwise eltwise = CTXGEN_TRY(accepted(read_activation(n), n));
  ProgramOp op = builder.op(kind::kEltwise, n);
  if (n.node().op_type == "Celu") {
    set_eltwise(op, "linear", eltwise.beta, 0.0F);
    op.post_ops.push_back(eltwise_step("elu", eltwise.alpha));
  } else {
    set_eltwise(op, eltwise.alg, eltwise.alpha, eltwise.beta);
  }
  if (eltwise.factor != 1.0F) op.post_ops.push_back(eltwise_step("linear", eltwise.factor));
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_prelu(const NodeView& n) { return refusal_of(read_slope(n)); }

/// One slope: a relu. Several: a step of its own.
Status lower_prelu(const NodeView& n, ProgramBuilder& builder) {
  const std::optional<Tensor> slope = CTXGEN_TRY(accepted(read_slope(n), n));
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  if (slope && slope->element_count() == 1) {
    builder.add_eltwise(n, "relu", floats_of(*slope)[0], 0.0F, src, result);
    return {};
  }
  const Operand factor =
      slope ? builder.weight(n.input_value(1).name, *slope) : builder.operand(n.input(1));
  builder.add_binary(n, "prelu", src, factor, result);
  return {};
}

}  // namespace ctxgen::onednn
