#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"
#include "quantization.h"
#include "window_attributes.h"

// The QLinear operators of com.microsoft that are not products: real work between conversions, which
// fusion joins to one pass over 8-bit data where it can.
namespace ctxgen::onednn {

namespace {

constexpr std::initializer_list<DataType> kBytes = {DataType::kUint8, DataType::kInt8};

Refusal check_result(const NodeView& n, const Quantization& to) {
  const ValueType& type = n.output_value(0).type;
  if (type.element != DataType::kUint8 && type.element != DataType::kInt8) {
    return std::format("result of type {}", name_of(type.element));
  }
  if (to.type != DataType::kUndefined && to.type != type.element) return "zero point of other type";
  if (!type.has_rank()) return "rank of the result is unknown";
  return std::nullopt;
}

struct Unary {
  Quantization from, to;
};

/// Inputs X, X_scale, X_zero, Y_scale, Y_zero.
Read<Unary> read_unary(const NodeView& n) {
  CTXGEN_REFUSE(require_value(n, 0, kBytes));
  const Unary unary{CTXGEN_TRY(read_quantization(n, 1, 2)), CTXGEN_TRY(read_quantization(n, 3, 4))};
  CTXGEN_REFUSE(check_result(n, unary.to));
  return unary;
}

struct Binary {
  Quantization a, b, to;
};

/// Operands of a QLinearAdd or QLinearMul: their first inputs.
constexpr std::size_t kOperands[] = {0, 3};

Read<Binary> read_binary(const NodeView& n) {
  if (n.constant(0) != nullptr && n.constant(3) != nullptr) return refuse("both are constant");
  for (const std::size_t i : kOperands) {
    const Tensor* constant = n.constant(i);
    if (constant != nullptr && constant->type() != DataType::kUint8 &&
        constant->type() != DataType::kInt8) {
      return refuse("constant of type {}", name_of(constant->type()));
    }
    if (constant != nullptr) continue;
    CTXGEN_REFUSE(require_value(n, i, kBytes));
  }
  const Binary binary{CTXGEN_TRY(read_quantization(n, 1, 2)),
                      CTXGEN_TRY(read_quantization(n, 4, 5)),
                      CTXGEN_TRY(read_quantization(n, 6, 7))};
  CTXGEN_REFUSE(check_result(n, binary.to));
  return binary;
}

/// A softmax over the last axis: the same for both meanings that `axis` has had.
Read<Unary> read_softmax(const NodeView& n) {
  const std::int64_t axis = CTXGEN_TRY(
      axis_of(n.node().int_or("axis", n.node().int_or("opset", 13) < 13 ? 1 : -1), n.rank(0)));
  if (static_cast<std::size_t>(axis) + 1 != n.rank(0)) {
    return refuse("axis {} is not the last of {}", axis, n.rank(0));
  }
  return read_unary(n);
}

bool is_global(const NodeView& n) { return n.node().op_type == "QLinearGlobalAveragePool"; }

struct Pool {
  Unary unary;
  WindowAttributes window;  // unless global
};

Read<Pool> read_pool(const NodeView& n) {
  Pool pool{.unary = CTXGEN_TRY(read_unary(n)), .window = {}};
  if (n.node().int_or("channels_last", 0) != 0) return refuse("channels_last");
  const std::size_t rank = n.rank(0);
  if (rank < 3 || rank > 5) return refuse("rank {}, expected 3 to 5", rank);
  if (is_global(n)) return pool;
  if (n.node().int_or("ceil_mode", 0) != 0) return refuse("ceil_mode");
  pool.window = CTXGEN_TRY(read_window(n, rank - 2, {}));
  for (std::size_t i = 0; i < pool.window.pads.size(); ++i) {
    if (pool.window.pads[i] >= pool.window.kernel[i % (rank - 2)]) {
      return refuse("pad {} is not smaller than the kernel", pool.window.pads[i]);
    }
  }
  return pool;
}

/// The real numbers of a value or constant.
Result<Operand> real_operand(const NodeView& n, std::size_t input, const Quantization& from,
                             ProgramBuilder& builder) {
  const Tensor* constant = n.constant(input);
  if (constant == nullptr) return add_dequantize(n, input, from, builder);
  const QuantizedWeight weight{.stored = *constant, .scales = {from.scale}, .zeros = {from.zero}};
  return builder.weight(n.input_value(input).name, CTXGEN_TRY(dequantized(weight)));
}

}  // namespace

Refusal check_qlinear_binary(const NodeView& n) { return refusal_of(read_binary(n)); }

Status lower_qlinear_binary(const NodeView& n, ProgramBuilder& builder) {
  const Binary binary = CTXGEN_TRY(accepted(read_binary(n), n));
  const Operand a = CTXGEN_TRY(real_operand(n, 0, binary.a, builder));
  const Operand b = CTXGEN_TRY(real_operand(n, 3, binary.b, builder));
  const std::uint32_t real = real_result(n, builder);
  builder.add_binary(n, n.node().op_type == "QLinearAdd" ? "add" : "mul", a, b, real);
  add_quantize(n, real, binary.to, builder);
  return {};
}

Refusal check_qlinear_activation(const NodeView& n) { return refusal_of(read_unary(n)); }

Status lower_qlinear_activation(const NodeView& n, ProgramBuilder& builder) {
  const Unary unary = CTXGEN_TRY(accepted(read_unary(n), n));
  const Operand x = add_dequantize(n, 0, unary.from, builder);
  const std::uint32_t real = real_result(n, builder);
  const bool sigmoid = n.node().op_type == "QLinearSigmoid";
  builder.add_eltwise(n, sigmoid ? "sigmoid" : "relu",
                      sigmoid ? 0.0F : n.node().float_or("alpha", 0.01F), 0.0F, x, real);
  add_quantize(n, real, unary.to, builder);
  return {};
}

Refusal check_qlinear_softmax(const NodeView& n) { return refusal_of(read_softmax(n)); }

Status lower_qlinear_softmax(const NodeView& n, ProgramBuilder& builder) {
  const Unary unary = CTXGEN_TRY(accepted(read_softmax(n), n));
  ProgramOp op = builder.op(kind::kSoftmax, n);
  encode(SoftmaxParams{.axis = static_cast<std::int64_t>(n.rank(0)) - 1}, op);
  const Operand x = add_dequantize(n, 0, unary.from, builder);
  const std::uint32_t real = real_result(n, builder);
  builder.add(std::move(op), {x}, real);
  add_quantize(n, real, unary.to, builder);
  return {};
}

Refusal check_qlinear_pool(const NodeView& n) { return refusal_of(read_pool(n)); }

Status lower_qlinear_pool(const NodeView& n, ProgramBuilder& builder) {
  const Pool pool = CTXGEN_TRY(accepted(read_pool(n), n));
  ProgramOp op = builder.op(is_global(n) ? kind::kGlobalPool : kind::kPool, n);
  const bool include = n.node().int_or("count_include_pad", 0) != 0;
  if (is_global(n))
    encode(GlobalPoolParams{.mode = "avg"}, op);
  else
    encode(PoolParams{.mode = include ? "avg_include" : "avg_exclude",
                      .kernel = pool.window.kernel,
                      .window = pool.window},
           op);
  const Operand x = add_dequantize(n, 0, pool.unary.from, builder);
  const std::uint32_t real = real_result(n, builder);
  builder.add(std::move(op), {x}, real);
  add_quantize(n, real, pool.unary.to, builder);
  return {};
}

}  // namespace ctxgen::onednn
