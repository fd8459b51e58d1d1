#include <algorithm>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "conv_params.h"
#include "ops.h"
#include "quantization.h"

// Quantised products. The QLinear operators are lowered to the real product between conversions,
// which fusion makes an integer product where oneDNN has a fast one. ConvInteger and MatMulInteger
// are sums that float32 cannot hold: where oneDNN's integer product does not run, our own does.
namespace ctxgen::onednn {

namespace {

constexpr std::initializer_list<DataType> kBytes = {DataType::kUint8, DataType::kInt8};

struct QLinear {
  Quantization a, result;
  QuantizedWeight b;
  ConvParams conv;  // of convolutions
};

/// Inputs a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero of both QLinear products.
Read<QLinear> read_qlinear(const NodeView& n, std::int64_t channel_axis) {
  CTXGEN_REFUSE(require_value(n, 0, kBytes));
  QLinear q;
  q.a = CTXGEN_TRY(read_quantization(n, 1, 2));
  q.result = CTXGEN_TRY(read_quantization(n, 6, 7));
  const Tensor* b = n.constant(3);
  const Tensor* scale = n.constant(4);
  const Tensor* zero = n.constant(5);
  if (b == nullptr || scale == nullptr || zero == nullptr) {
    return refuse("weights, their scale or zero point are not constant");
  }
  auto weight = quantized_weight(*b, *scale, zero, channel_axis);
  if (!weight) return refuse("scale or zero point do not fit the weights");
  q.b = std::move(*weight);
  const DataType type = n.output_value(0).type.element;
  if (type != q.result.type || q.a.type != n.input_value(0).type.element) {
    return refuse("zero points of other types than the data");
  }
  if (type != DataType::kUint8 && type != DataType::kInt8) {
    return refuse("result of type {}", name_of(type));
  }
  if (!n.output_value(0).type.has_rank()) return refuse("rank of the result is unknown");
  return q;
}

Read<QLinear> read_qlinear_conv(const NodeView& n) {
  QLinear q = CTXGEN_TRY(read_qlinear(n, 0));
  q.conv = CTXGEN_TRY(read_conv_params(n, q.b.stored.dims()));
  if (!n.has_input(8)) return q;
  const Tensor* bias = n.constant(8);
  if (bias == nullptr || bias->type() != DataType::kInt32) return refuse("bias is not constant");
  if (bias->dims() != Dims{q.b.stored.dims()[0]}) {
    return refuse("bias has dims {}, expected [{}]", to_string(bias->dims()), q.b.stored.dims()[0]);
  }
  return q;
}

Read<QLinear> read_qlinear_matmul(const NodeView& n) {
  QLinear q = CTXGEN_TRY(read_qlinear(n, 1));
  if (n.rank(0) < 2 || q.b.stored.rank() != 2) {
    return refuse("ranks {} and {}, expected at least 2 and 2", n.rank(0), q.b.stored.rank());
  }
  return q;
}

/// The bias counts in units of a_scale * b_scale.
Result<Tensor> real_bias(const QLinear& q, const Tensor& bias) {
  const std::vector<std::int32_t> counts = integers_of(bias);
  std::vector<float> values(counts.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const float scale = q.b.scales[q.b.scales.size() == 1 ? 0 : i];
    values[i] = static_cast<float>(double{static_cast<float>(counts[i])} * q.a.scale * scale);
  }
  return tensor_of(bias.dims(), values);
}

/// An integer product: constant second operand with all zero points inside s8.
struct IntegerProduct {
  std::int64_t in_zero = 0;
  Tensor weights;   // symmetric s8
  ConvParams conv;  // of convolutions
};

Read<IntegerProduct> read_integer_product(const NodeView& n) {
  if (n.view().target().portable)
    return refuse("not every instruction set has products of 8-bit integers (--portable)");
  if (!has_fast_int8()) return refuse("this instruction set has no products of 8-bit integers");
  CTXGEN_REFUSE(require_value(n, 0, kBytes));
  const Tensor* stored = n.constant(1);
  if (stored == nullptr) return refuse("weights are not constant");
  if (!n.output_value(0).type.has_rank()) return refuse("rank of the result is unknown");
  IntegerProduct product;
  if (n.has_input(2)) {
    const Tensor* zero = n.constant(2);
    if (zero == nullptr) return refuse("zero point of the source is not constant");
    if (zero->element_count() != 1) return refuse("zero point of the source is per row");
    if (zero->type() != n.input_value(0).type.element) return refuse("zero point of other type");
    product.in_zero = integers_of(*zero)[0];
  }
  const Tensor* zero = n.has_input(3) ? n.constant(3) : nullptr;
  if (n.has_input(3) && zero == nullptr) return refuse("zero point of the weights is not constant");
  const auto one = tensor_of(Dims{}, std::vector{1.0F});
  if (!one) return refuse("out of memory");
  if (zero != nullptr && zero->element_count() != 1) return refuse("zero points per channel");
  const auto weight = quantized_weight(*stored, *one, zero, 0);
  if (!weight) return refuse("weights of type {}", name_of(stored->type()));
  auto symmetric = symmetric_s8(*weight);
  if (!symmetric) return refuse("{}", symmetric.error().message);
  if (!*symmetric) return refuse("weights less their zero point do not fit in int8");
  product.weights = std::move(**symmetric);
  return product;
}

/// Whether oneDNN runs the node alone, lowered as it will be.
Refusal check_speed(const NodeView& n,
                    Status (*lower)(const NodeView& n, ProgramBuilder& builder)) {
  ProgramBuilder builder(n.view());
  if (!lower(n, builder)) return "cannot be lowered";
  const auto lowered = std::move(builder).finish();
  if (!lowered) return lowered.error().message;
  if (runs_fast(lowered->program, lowered->program.ops[0])) return std::nullopt;
  return "oneDNN has no fast kernel for it";
}

Read<IntegerProduct> read_conv_integer(const NodeView& n) {
  IntegerProduct product = CTXGEN_TRY(read_integer_product(n));
  product.conv = CTXGEN_TRY(read_conv_params(n, product.weights.dims()));
  return product;
}

Read<IntegerProduct> read_matmul_integer(const NodeView& n) {
  IntegerProduct product = CTXGEN_TRY(read_integer_product(n));
  if (n.rank(0) < 2 || product.weights.rank() != 2) {
    return refuse("ranks {} and {}, expected at least 2 and 2", n.rank(0), product.weights.rank());
  }
  return product;
}

Status lower_matmul_integer_onednn(const NodeView& n, ProgramBuilder& builder) {
  const IntegerProduct product = CTXGEN_TRY(accepted(read_matmul_integer(n), n));
  ProgramOp op = builder.op(kind::kQMatmul, n);
  encode(QMatmulParams{.steps = {.in_zero = product.in_zero}}, op);
  const Operand weights = builder.weight(n.input_value(1).name, product.weights);
  builder.add(std::move(op), {builder.operand(n.input(0)), weights}, builder.value(n.output(0)));
  return {};
}

Status lower_conv_integer_onednn(const NodeView& n, ProgramBuilder& builder) {
  const IntegerProduct product = CTXGEN_TRY(accepted(read_conv_integer(n), n));
  ProgramOp op = builder.op(kind::kQConv, n);
  encode(QConvParams{.steps = {.in_zero = product.in_zero}, .conv = product.conv}, op);
  const Operand weights = builder.weight(n.input_value(1).name, product.weights);
  builder.add(std::move(op), {builder.operand(n.input(0)), weights}, builder.value(n.output(0)));
  return {};
}

}  // namespace

bool runs_matmul_on_onednn(const NodeView& n) {
  return read_matmul_integer(n) && !check_speed(n, lower_matmul_integer_onednn);
}

bool runs_conv_on_onednn(const NodeView& n) {
  return read_conv_integer(n) && !check_speed(n, lower_conv_integer_onednn);
}

Refusal check_qlinear_conv(const NodeView& n) { return refusal_of(read_qlinear_conv(n)); }

Status lower_qlinear_conv(const NodeView& n, ProgramBuilder& builder) {
  const QLinear q = CTXGEN_TRY(accepted(read_qlinear_conv(n), n));
  ProgramOp op = builder.op(kind::kConv, n);
  encode(q.conv, op);
  std::vector<Operand> inputs = {add_dequantize(n, 0, q.a, builder),
                                 CTXGEN_TRY(add_quantized_weight(n, 3, q.b, builder))};
  if (n.has_input(8)) {
    inputs.push_back(
        builder.weight(n.input_value(8).name, CTXGEN_TRY(real_bias(q, *n.constant(8)))));
  }
  const std::uint32_t real = real_result(n, builder);
  builder.add(std::move(op), inputs, real);
  add_quantize(n, real, q.result, builder);
  return {};
}

Refusal check_qlinear_matmul(const NodeView& n) { return refusal_of(read_qlinear_matmul(n)); }

Status lower_qlinear_matmul(const NodeView& n, ProgramBuilder& builder) {
  const QLinear q = CTXGEN_TRY(accepted(read_qlinear_matmul(n), n));
  ProgramOp op = builder.op(kind::kMatmul, n);
  encode(MatmulParams{}, op);
  const Operand a = add_dequantize(n, 0, q.a, builder);
  const Operand b = CTXGEN_TRY(add_quantized_weight(n, 3, q.b, builder));
  const std::uint32_t real = real_result(n, builder);
  builder.add(std::move(op), {a, b}, real);
  add_quantize(n, real, q.result, builder);
  return {};
}

/// oneDNN's convolution where it has a fast one, else our own.
Refusal check_conv_integer(const NodeView& n) {
  return runs_conv_on_onednn(n) ? std::nullopt : check_byte_conv(n);
}

Status lower_conv_integer(const NodeView& n, ProgramBuilder& builder) {
  return runs_conv_on_onednn(n) ? lower_conv_integer_onednn(n, builder)
                                : lower_byte_conv(n, builder);
}

/// oneDNN's product where it has a fast one, which is the fastest on machines with AMX; else our own.
Refusal check_matmul_integer(const NodeView& n) {
  return runs_matmul_on_onednn(n) ? std::nullopt : check_byte_matmul(n);
}

Status lower_matmul_integer(const NodeView& n, ProgramBuilder& builder) {
  if (!runs_matmul_on_onednn(n)) return lower_byte_matmul(n, builder);
  return lower_matmul_integer_onednn(n, builder);
}

}  // namespace ctxgen::onednn
