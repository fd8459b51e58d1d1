#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../ops.h"
#include "byte_weights.h"

// Values rounded to bytes by their own range, and products of bytes whose zero points are values: what
// ONNX Runtime's quantize_dynamic writes, and the operators that it fuses of them.
namespace ctxgen::onednn {

namespace {

DataType element_of(const NodeView& n, std::size_t input) {
  return n.input_value(input).type.element;
}

/// An output that is there, or a value that nothing reads.
std::uint32_t output_or_unread(const NodeView& n, std::size_t i, std::string_view name,
                               std::vector<ProgramDim> dims, DataType type,
                               ProgramBuilder& builder) {
  if (i < n.output_count() && n.output(i).valid()) return builder.value(n.output(i));
  return builder.temporary(std::string(n.node().name) + std::string(name), std::move(dims), type);
}

/// Inputs A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias.
Read<ByteWeights> read_integer_to_float(const NodeView& n) {
  ByteWeights weights = CTXGEN_TRY(read_byte_weights(n, 1, 5));
  CTXGEN_REFUSE(require_byte_rows(n, 0, weights.matrix.k));
  if (!n.has_input(2) || !n.has_input(3)) return refuse("a scale is absent");
  CTXGEN_REFUSE(require_one(n, 2, DataType::kFloat, "scale of A"));
  CTXGEN_REFUSE(require_one(n, 4, element_of(n, 0), "zero point of A"));
  CTXGEN_REFUSE(require_vector(n, 3, weights.matrix.n, "scale of B"));
  CTXGEN_REFUSE(require_vector(n, 6, weights.matrix.n, "bias"));
  if (n.has_input(6) && n.constant(6)->element_count() != weights.matrix.n)
    return refuse("bias of {} elements", n.constant(6)->element_count());
  if (n.output_value(0).type.element != DataType::kFloat) return refuse("result is not float32");
  return weights;
}

/// Inputs A, B, b_scale, b_zero_point, bias.
Read<ByteWeights> read_dynamic_matmul(const NodeView& n) {
  CTXGEN_REFUSE(require_value(n, 0, {DataType::kFloat}));
  ByteWeights weights = CTXGEN_TRY(read_byte_weights(n, 1, 3));
  const Dim last = n.input_dims(0).back();
  if (last.is_fixed() && last.value() != weights.matrix.k)
    return refuse("rows of {} elements by {} x ...", last.value(), weights.matrix.k);
  if (!n.has_input(2)) return refuse("scale of B is absent");
  CTXGEN_REFUSE(require_vector(n, 2, weights.matrix.n, "scale of B"));
  CTXGEN_REFUSE(require_vector(n, 4, weights.matrix.n, "bias"));
  if (n.has_input(4) && n.constant(4)->element_count() != weights.matrix.n)
    return refuse("bias of {} elements", n.constant(4)->element_count());
  return weights;
}

Operand input_operand(const NodeView& n, std::size_t i, ProgramBuilder& builder) {
  return byte_operand(n.view(), n.has_input(i) ? n.input(i) : ValueId{}, builder);
}

}  // namespace

Refusal check_dynamic_quantize(const NodeView& n) {
  return require_value(n, 0, {DataType::kFloat});
}

Status lower_dynamic_quantize(const NodeView& n, ProgramBuilder& builder) {
  const std::uint32_t bytes = builder.value(n.output(0));
  const std::uint32_t scale = output_or_unread(n, 1, "/scale", {}, DataType::kFloat, builder);
  const std::uint32_t zero = output_or_unread(n, 2, "/zero", {}, DataType::kUint8, builder);
  builder.add(builder.op(kind::kDynamicQuantize, n), {builder.operand(n.input(0))},
              {scale, zero, bytes});
  return {};
}

Refusal check_byte_matmul(const NodeView& n) { return refusal_of(read_byte_matmul(n)); }

Status lower_byte_matmul(const NodeView& n, ProgramBuilder& builder) {
  const ByteWeights weights = CTXGEN_TRY(accepted(read_byte_matmul(n), n));
  return add_byte_matmul(n, 1, weights,
                         {.a = builder.operand(n.input(0)), .zero = input_operand(n, 2, builder)},
                         builder.op(kind::kByteMatmul, n), builder.value(n.output(0)), builder);
}

Refusal check_byte_conv(const NodeView& n) { return refusal_of(read_byte_conv(n)); }

Status lower_byte_conv(const NodeView& n, ProgramBuilder& builder) {
  const ByteConvWeights weights = CTXGEN_TRY(accepted(read_byte_conv(n), n));
  return add_byte_conv(n, weights,
                       {.a = builder.operand(n.input(0)), .zero = input_operand(n, 2, builder)},
                       builder.op(kind::kByteConv, n), builder.value(n.output(0)), builder);
}

Refusal check_matmul_integer_to_float(const NodeView& n) {
  return refusal_of(read_integer_to_float(n));
}

Status lower_matmul_integer_to_float(const NodeView& n, ProgramBuilder& builder) {
  const ByteWeights weights = CTXGEN_TRY(accepted(read_integer_to_float(n), n));
  return add_byte_matmul(n, 1, weights,
                         {.a = builder.operand(n.input(0)),
                          .zero = input_operand(n, 4, builder),
                          .scale = input_operand(n, 2, builder),
                          .scales = input_operand(n, 3, builder),
                          .bias = input_operand(n, 6, builder)},
                         builder.op(kind::kByteMatmul, n), builder.value(n.output(0)), builder);
}

Refusal check_dynamic_quantize_matmul(const NodeView& n) {
  return refusal_of(read_dynamic_matmul(n));
}

Status lower_dynamic_quantize_matmul(const NodeView& n, ProgramBuilder& builder) {
  const ByteWeights weights = CTXGEN_TRY(accepted(read_dynamic_matmul(n), n));
  const Operand source = builder.operand(n.input(0));
  const std::string name(n.node().name);
  const std::uint32_t scale = builder.temporary(name + "/scale", {}, DataType::kFloat);
  const std::uint32_t zero = builder.temporary(name + "/zero", {}, DataType::kUint8);
  const std::uint32_t bytes =
      builder.temporary(name + "/bytes", builder.at(source.index).dims, DataType::kUint8);
  builder.add(builder.op(kind::kDynamicQuantize, n), {source}, {scale, zero, bytes});
  return add_byte_matmul(n, 1, weights,
                         {.a = Operand::value(bytes),
                          .zero = Operand::value(zero),
                          .scale = Operand::value(scale),
                          .scales = input_operand(n, 2, builder),
                          .bias = input_operand(n, 4, builder)},
                         builder.op(kind::kByteMatmul, n), builder.value(n.output(0)), builder);
}

}  // namespace ctxgen::onednn
