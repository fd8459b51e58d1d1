#include <algorithm>
#include <array>
#include <cmath>
#include <format>
#include <numeric>
#include <utility>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

constexpr std::array<std::string_view, 4> kBatchNormNames = {"scale", "bias", "mean", "variance"};

/// scale, bias, mean and variance of BatchNormalization, all [C]; null where one is not constant.
Read<std::array<const Tensor*, 4>> read_batch_norm(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  if (n.rank(0) < 2) return refuse("rank 1, expected 2 or more");
  const Node& node = n.node();
  if (node.opset < 7 && node.int_or("is_test", 0) == 0) return refuse("training mode (is_test=0)");
  if (node.opset >= 14 && node.int_or("training_mode", 0) != 0) return refuse("training mode");
  if (node.opset < 9 && node.int_or("spatial", 1) == 0) return refuse("spatial=0");
  CTXGEN_REFUSE(require_one_output(n));
  std::array<const Tensor*, 4> tensors{};
  Dims first;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Dims dims = CTXGEN_TRY(known_dims_f32(n, i + 1, kBatchNormNames[i]));
    if (i == 0) first = dims;
    if (dims.size() != 1 || dims != first) {
      return refuse("{} has dims {}, expected one value per channel", kBatchNormNames[i],
                    to_string(dims));
    }
    tensors[i] = n.constant(i + 1);
  }
  const Dim channels = n.input_dims(0)[1];
  if (channels.is_fixed() && channels.value() != first[0]) {
    return refuse("scale has {} values for {} channels", first[0], channels.value());
  }
  return tensors;
}

/// Computed vectors: y = x * factor + shift with factor = scale / sqrt(variance + epsilon) and
/// shift = bias - mean * factor, ops over [C, 1...] that broadcast to x.
void emit_computed_batch_norm(const NodeView& n, ProgramBuilder& builder) {
  const std::string& name = n.output_value(0).name;
  const std::vector<ProgramDim> vector = builder.dims(n.input_dims(1));
  const auto value = [&](std::string_view what, std::vector<ProgramDim> dims) {
    return builder.temporary(std::format("{}/{}", name, what), std::move(dims));
  };
  const auto binary = [&](std::string_view alg, Operand a, Operand b, std::string_view what) {
    const std::uint32_t result = value(what, vector);
    builder.add_binary(n, alg, a, b, result);
    return Operand::value(result);
  };
  const auto eltwise = [&](std::string_view alg, float beta, Operand a, std::string_view what) {
    const std::uint32_t result = value(what, vector);
    builder.add_eltwise(n, alg, 1.0F, beta, a, result);
    return Operand::value(result);
  };
  const auto spread = [&](Operand a, std::string_view what) {
    std::vector<std::int64_t> axes(n.rank(0) - 2);
    std::iota(axes.begin(), axes.end(), std::int64_t{1});
    if (axes.empty()) return a;
    std::vector<ProgramDim> dims = vector;
    dims.resize(n.rank(0) - 1, ProgramDim{.value = 1});
    const std::uint32_t result = value(what, std::move(dims));
    ProgramOp op = builder.op(kind::kUnsqueeze, n);
    encode(AxesParams{std::move(axes)}, op);
    builder.add(std::move(op), {a}, result);
    return Operand::value(result);
  };
  const float epsilon = n.node().float_or("epsilon", 1e-5F);
  const Operand variance = builder.operand(n.input(4));
  const Operand deviation =
      eltwise("sqrt", 0.0F, eltwise("linear", epsilon, variance, "variance"), "deviation");
  const Operand factor = binary("div", builder.operand(n.input(1)), deviation, "factor");
  const Operand shift = binary("sub", builder.operand(n.input(2)),
                               binary("mul", builder.operand(n.input(3)), factor, "mean"), "shift");
  const std::uint32_t scaled = value("scaled", builder.at(builder.value(n.output(0))).dims);
  builder.add_binary(n, "mul", builder.operand(n.input(0)), spread(factor, "factors"), scaled);
  builder.add_binary(n, "add", Operand::value(scaled), spread(shift, "shifts"),
                     builder.value(n.output(0)));
}

Refusal check_normalized_dims(const NodeView& n, std::size_t i, std::string_view what,
                              std::size_t axis) {
  if (!n.has_input(i)) return std::nullopt;
  if (Refusal refusal = require_f32(n, {i})) return refusal;
  return require_same_tail(n, i, what, axis);
}

Read<NormParams> read_layer_norm(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return std::unexpected(*refusal);
  CTXGEN_REFUSE(require_one_output(n));
  if (n.constant(0) != nullptr) return refuse("input is constant");
  const std::int64_t axis = CTXGEN_TRY(axis_of(n.node().int_or("axis", -1), n.rank(0)));
  if (!n.has_input(1)) return refuse("scale is absent");
  if (n.node().int_or("stash_type", 1) != 1) {
    return refuse("stash_type {}", n.node().int_or("stash_type", 1));
  }
  for (std::size_t i = 1; i < 3; ++i) {
    if (Refusal refusal = check_normalized_dims(n, i, i == 1 ? "scale" : "bias",
                                                static_cast<std::size_t>(axis))) {
      return std::unexpected(*refusal);
    }
  }
  return NormParams{.axis = axis, .epsilon = double{n.node().float_or("epsilon", 1e-5F)}};
}

}  // namespace

Refusal check_batch_norm(const NodeView& n) { return refusal_of(read_batch_norm(n)); }

Status lower_batch_norm(const NodeView& n, ProgramBuilder& builder) {
  const auto tensors = CTXGEN_TRY(accepted(read_batch_norm(n), n));
  if (std::ranges::find(tensors, nullptr) != tensors.end()) {
    emit_computed_batch_norm(n, builder);
    return {};
  }
  const std::vector<float> gamma = floats_of(*tensors[0]), beta = floats_of(*tensors[1]);
  const std::vector<float> mean = floats_of(*tensors[2]), variance = floats_of(*tensors[3]);
  const double epsilon = n.node().float_or("epsilon", 1e-5F);
  std::vector<float> scale(gamma.size()), shift(gamma.size());
  for (std::size_t c = 0; c < gamma.size(); ++c) {
    const double factor = double{gamma[c]} / std::sqrt(double{variance[c]} + epsilon);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(double{beta[c]} - factor * double{mean[c]});
  }
  const Tensor scale_tensor = CTXGEN_TRY(tensor_of(tensors[0]->dims(), scale));
  const Tensor shift_tensor = CTXGEN_TRY(tensor_of(tensors[0]->dims(), shift));
  ProgramOp op = builder.op(kind::kScaleShift, n);
  builder.add(
      std::move(op),
      {builder.operand(n.input(0)), builder.weight(n.input_value(1).name + "/scale", scale_tensor),
       builder.weight(n.input_value(2).name + "/shift", shift_tensor)},
      builder.value(n.output(0)));
  return {};
}

Refusal check_lrn(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0})) return refusal;
  if (n.rank(0) < 3 || n.rank(0) > 5) return std::format("rank {}, expected 3 to 5", n.rank(0));
  const std::int64_t size = n.node().int_or("size", 0);
  if (size < 1 || size > 1 << 16) return std::format("size {}, expected 1 to {}", size, 1 << 16);
  return std::nullopt;
}

Status lower_lrn(const NodeView& n, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kLrn, n);
  encode(LrnParams{.size = n.node().int_or("size", 0),
                   .alpha = double{n.node().float_or("alpha", 1e-4F)},
                   .beta = double{n.node().float_or("beta", 0.75F)},
                   .bias = double{n.node().float_or("bias", 1.0F)}},
         op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_layer_norm(const NodeView& n) { return refusal_of(read_layer_norm(n)); }

Status lower_layer_norm(const NodeView& n, ProgramBuilder& builder) {
  const NormParams params = CTXGEN_TRY(accepted(read_layer_norm(n), n));
  ProgramOp op = builder.op(kind::kLayerNorm, n);
  encode(params, op);
  builder.add(
      std::move(op),
      {builder.operand(n.input(0)), builder.operand(n.input(1)), builder.operand(n.input(2))},
      builder.value(n.output(0)));
  return {};
}

}  // namespace ctxgen::onednn
