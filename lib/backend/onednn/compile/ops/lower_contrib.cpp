#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <vector>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

// com.microsoft: what ONNX Runtime's optimizers make of several operators. The fused activations are
// ops of their own here, which the fusing of programs puts back.

namespace ctxgen::onednn {

namespace {

struct Eltwise {
  std::string_view alg;
  float alpha = 0.0F, beta = 0.0F;
};

/// An activation by name; what `parameters` lacks has ONNX's default.
Read<Eltwise> eltwise_of(std::string_view name, std::span<const float> parameters) {
  struct Row {
    std::string_view name, alg;
    float alpha = 0.0F, beta = 0.0F;
    std::size_t parameters = 0;
  };
  constexpr std::array<Row, 6> kRows = {{{"Elu", "elu", 1.0F, 0.0F, 1},
                                         {"HardSigmoid", "hardsigmoid", 0.2F, 0.5F, 2},
                                         {"LeakyRelu", "relu", 0.01F, 0.0F, 1},
                                         {"Relu", "relu"},
                                         {"Sigmoid", "sigmoid"},
                                         {"Tanh", "tanh"}}};
  if (name == "Clip") {
    if (parameters.size() != 2) return refuse("Clip with {} parameters", parameters.size());
    if (!(parameters[0] <= parameters[1])) return refuse("Clip with min above max");
    return Eltwise{"clip", parameters[0], parameters[1]};
  }
  const auto* row = std::ranges::find(kRows, name, &Row::name);
  if (row == std::end(kRows)) return refuse("activation \"{}\"", name);
  Eltwise eltwise{row->alg, row->alpha, row->beta};
  if (row->parameters > 0 && !parameters.empty()) eltwise.alpha = parameters[0];
  if (row->parameters > 1 && parameters.size() > 1) eltwise.beta = parameters[1];
  return eltwise;
}

/// Nothing where there is none. FusedConv has activation_params, FusedGemm activation_alpha and _beta.
Read<std::optional<Eltwise>> read_fused_activation(const NodeView& n) {
  const Node& node = n.node();
  const std::string_view name = node.string_or("activation", "");
  if (name.empty()) return std::optional<Eltwise>();
  std::vector<float> parameters;
  if (const Attribute* given = node.attribute("activation_params")) parameters = given->floats;
  for (const std::string_view one : {"activation_alpha", "activation_beta"})
    if (node.attribute(one) != nullptr) parameters.push_back(node.float_or(one, 0.0F));
  return CTXGEN_TRY(eltwise_of(name, parameters));
}

/// Emits `result` = the node's activation of what `emit` puts into a value of the same dims.
template <class Emit>
Status lower_fused(const NodeView& n, ProgramBuilder& builder, Emit&& emit) {
  const auto eltwise = CTXGEN_TRY(accepted(read_fused_activation(n), n));
  const std::uint32_t result = builder.value(n.output(0));
  if (!eltwise) return emit(result);
  const std::uint32_t inner =
      builder.temporary(n.output_value(0).name + "/linear", builder.at(result).dims);
  CTXGEN_CHECK(emit(inner));
  builder.add_eltwise(n, eltwise->alg, eltwise->alpha, eltwise->beta, Operand::value(inner),
                      result);
  return {};
}

/// Input i in every run a vector of the last dim of input 0.
Refusal require_row(const NodeView& n, std::size_t i, std::string_view what) {
  if (Refusal refusal = require_f32(n, {i})) return refusal;
  if (n.rank(i) != 1) return std::format("{} has rank {}, expected 1", what, n.rank(i));
  return require_same_tail(n, i, what, n.rank(0) - 1);
}

/// Inputs: input, skip, gamma, then beta and bias, or for the simplified form bias.
Refusal check_skip(const NodeView& n, std::span<const std::string_view> rows) {
  if (Refusal refusal = require_f32(n, {0, 1})) return refusal;
  if (n.constant(0) != nullptr || n.constant(1) != nullptr) return "input or skip is constant";
  if (n.rank(0) < 2 || n.rank(1) > n.rank(0))
    return std::format("input and skip have ranks {} and {}", n.rank(0), n.rank(1));
  CTXGEN_REFUSE(require_same_tail(n, 1, "skip", n.rank(0) - n.rank(1)));
  if (!n.has_input(2)) return "gamma is absent";
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (n.has_input(i + 2)) CTXGEN_REFUSE(require_row(n, i + 2, rows[i]));
  for (const std::size_t i : {1, 2})
    if (n.output_wanted(i)) return "mean or inverse deviation is used";
  return std::nullopt;
}

/// The sum that is normalized; output 3 where it is wanted.
std::uint32_t lower_skip_sum(const NodeView& n, ProgramBuilder& builder, std::size_t bias) {
  const std::uint32_t result = builder.value(n.output(0));
  const auto dims = builder.at(result).dims;
  const std::uint32_t sum = n.output_wanted(3)
                                ? builder.value(n.output(3))
                                : builder.temporary(n.output_value(0).name + "/sum", dims);
  const bool has_bias = n.has_input(bias);
  const std::uint32_t partial =
      has_bias ? builder.temporary(n.output_value(0).name + "/skip", dims) : sum;
  builder.add_binary(n, "add", builder.operand(n.input(0)), builder.operand(n.input(1)), partial);
  if (has_bias)
    builder.add_binary(n, "add", Operand::value(partial), builder.operand(n.input(bias)), sum);
  return sum;
}

ProgramOp norm_op(const NodeView& n, ProgramBuilder& builder, std::string_view op_kind,
                  float epsilon) {
  ProgramOp op = builder.op(op_kind, n);
  encode(NormParams{.axis = static_cast<std::int64_t>(n.rank(0)) - 1,
                    .epsilon = double{n.node().float_or("epsilon", epsilon)}},
         op);
  return op;
}

}  // namespace

Refusal check_fused_conv(const NodeView& n) {
  CTXGEN_REFUSE(refusal_of(read_fused_activation(n)));
  if (n.has_input(3)) {
    if (Refusal refusal = require_f32(n, {3})) return refusal;
    if (n.constant(3) != nullptr) return "Z is constant";
  }
  return check_conv(n);
}

Status lower_fused_conv(const NodeView& n, ProgramBuilder& builder) {
  return lower_fused(n, builder, [&](std::uint32_t result) -> Status {
    if (!n.has_input(3)) return emit_conv(n, builder, result);
    const std::uint32_t product =
        builder.temporary(n.output_value(0).name + "/product", builder.at(result).dims);
    CTXGEN_CHECK(emit_conv(n, builder, product));
    builder.add_binary(n, "add", Operand::value(product), builder.operand(n.input(3)), result);
    return {};
  });
}

Refusal check_fused_gemm(const NodeView& n) {
  CTXGEN_REFUSE(refusal_of(read_fused_activation(n)));
  return check_gemm(n);
}

Status lower_fused_gemm(const NodeView& n, ProgramBuilder& builder) {
  return lower_fused(n, builder,
                     [&](std::uint32_t result) { return emit_gemm(n, builder, result); });
}

Refusal check_fused_matmul(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return refusal;
  if (n.rank(0) < 2 || n.rank(1) < 2) return "an operand is a vector";
  for (const std::string_view name : {"transBatchA", "transBatchB"})
    if (n.node().int_or(name, 0) != 0) return std::format("{} is set", name);
  return std::nullopt;
}

Status lower_fused_matmul(const NodeView& n, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kMatmul, n);
  encode(MatmulParams{.trans_a = n.node().int_or("transA", 0) != 0,
                      .trans_b = n.node().int_or("transB", 0) != 0},
         op);
  const float alpha = n.node().float_or("alpha", 1.0F);
  if (alpha != 1.0F) op.post_ops.push_back(eltwise_step("linear", alpha));
  builder.add(std::move(op), {builder.operand(n.input(0)), builder.operand(n.input(1))},
              builder.value(n.output(0)));
  return {};
}

Refusal check_bias_gelu(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return refusal;
  if (n.constant(0) != nullptr) return "input is constant";
  return n.has_input(1) ? require_row(n, 1, "bias") : std::nullopt;
}

Status lower_bias_gelu(const NodeView& n, ProgramBuilder& builder) {
  const std::uint32_t result = builder.value(n.output(0));
  Operand input = builder.operand(n.input(0));
  if (n.has_input(1)) {
    const std::uint32_t sum =
        builder.temporary(n.output_value(0).name + "/sum", builder.at(result).dims);
    builder.add_binary(n, "add", input, builder.operand(n.input(1)), sum);
    input = Operand::value(sum);
  }
  const bool exact = n.node().op_type == "BiasGelu";
  builder.add_eltwise(n, exact ? "gelu_erf" : "gelu_tanh", 0.0F, 0.0F, input, result);
  return {};
}

Refusal check_skip_layer_norm(const NodeView& n) {
  constexpr std::array<std::string_view, 3> kRows = {"gamma", "beta", "bias"};
  return check_skip(n, kRows);
}

Status lower_skip_layer_norm(const NodeView& n, ProgramBuilder& builder) {
  const std::uint32_t sum = lower_skip_sum(n, builder, 4);
  builder.add(norm_op(n, builder, kind::kLayerNorm, 1e-12F),
              {Operand::value(sum), builder.operand(n.input(2)), builder.operand(n.input(3))},
              builder.value(n.output(0)));
  return {};
}

Refusal check_skip_rms_norm(const NodeView& n) {
  constexpr std::array<std::string_view, 2> kRows = {"gamma", "bias"};
  return check_skip(n, kRows);
}

Status lower_skip_rms_norm(const NodeView& n, ProgramBuilder& builder) {
  const std::uint32_t sum = lower_skip_sum(n, builder, 3);
  builder.add(norm_op(n, builder, kind::kRmsNorm, 1e-12F),
              {Operand::value(sum), builder.operand(n.input(2))}, builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
