#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"
#include "quantization.h"

// QuantizeLinear, DequantizeLinear and casts: one element-wise op each, which fusion joins to others.
namespace ctxgen::onednn {

namespace {

constexpr std::initializer_list<DataType> kReals = {DataType::kFloat, DataType::kFloat16,
                                                    DataType::kBfloat16};

Refusal check_plain_form(const NodeView& n) {
  if (n.node().int_or("block_size", 0) != 0) return "scales in blocks";
  const std::int64_t precision = n.node().int_or("precision", 0);
  if (precision != 0 && precision != static_cast<int>(DataType::kFloat)) {
    return std::format("precision is {}", precision);
  }
  return std::nullopt;
}

Read<Quantization> read_quantize(const NodeView& n) {
  if (Refusal refusal = require_value(n, 0, kReals)) {
    return std::unexpected(*refusal);
  }
  CTXGEN_REFUSE(check_plain_form(n));
  Quantization q = CTXGEN_TRY(read_quantization(n, 1, 2));
  const DataType type = n.output_value(0).type.element;
  if (type != DataType::kUint8 && type != DataType::kInt8) {
    return refuse("result of type {}", name_of(type));
  }
  if (q.type != DataType::kUndefined && q.type != type) return refuse("zero point of other type");
  return q;
}

Read<Quantization> read_dequantize(const NodeView& n) {
  if (Refusal refusal =
          require_value(n, 0, {DataType::kUint8, DataType::kInt8, DataType::kInt32})) {
    return std::unexpected(*refusal);
  }
  CTXGEN_REFUSE(check_plain_form(n));
  if (n.output_value(0).type.element != DataType::kFloat) return refuse("result must be float32");
  const Quantization q = CTXGEN_TRY(read_quantization(n, 1, 2));
  if (n.input_value(0).type.element == DataType::kInt32 && q.zero != 0) {
    return refuse("int32 with zero point {}", q.zero);
  }
  return q;
}

/// The type that a Cast names, in either form of the attribute.
DataType cast_target(const NodeView& n) {
  const Attribute* to = n.node().attribute("to");
  if (to == nullptr) return DataType::kUndefined;
  if (to->kind == AttributeKind::kString) {
    if (to->s == "FLOAT") return DataType::kFloat;
    if (to->s == "BFLOAT16") return DataType::kBfloat16;
    return to->s == "FLOAT16" ? DataType::kFloat16 : DataType::kUndefined;
  }
  return is_known_data_type(to->i) ? static_cast<DataType>(to->i) : DataType::kUndefined;
}

}  // namespace

Refusal check_quantize(const NodeView& n) { return refusal_of(read_quantize(n)); }

Status lower_quantize(const NodeView& n, ProgramBuilder& builder) {
  const Quantization to = CTXGEN_TRY(accepted(read_quantize(n), n));
  ProgramOp op = builder.op(kind::kPoint, n);
  encode(PointParams{.out_scale = double{to.scale}, .out_zero = to.zero}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

Refusal check_dequantize(const NodeView& n) { return refusal_of(read_dequantize(n)); }

Status lower_dequantize(const NodeView& n, ProgramBuilder& builder) {
  const Quantization from = CTXGEN_TRY(accepted(read_dequantize(n), n));
  ProgramOp op = builder.op(kind::kPoint, n);
  encode(PointParams{.in_scale = double{from.scale}, .in_zero = from.zero}, op);
  builder.add(std::move(op), {builder.operand(n.input(0))}, builder.value(n.output(0)));
  return {};
}

/// Between float32, float16 and bfloat16, and from the sums of integer products to float32.
Refusal check_cast(const NodeView& n) {
  const DataType to = cast_target(n);
  if (is_half(to)) {
    if (Refusal refusal = require_value(n, 0, kReals)) {
      return refusal;
    }
  } else if (to == DataType::kFloat) {
    if (Refusal refusal = require_value(n, 0,
                                        {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                                         DataType::kInt32, DataType::kUint8, DataType::kInt8})) {
      return refusal;
    }
  } else {
    return "casts to another type than float32, float16 or bfloat16";
  }
  if (n.output_value(0).type.element != to) return "type of the result is not known";
  return std::nullopt;
}

Status lower_cast(const NodeView& n, ProgramBuilder& builder) {
  const Operand src = builder.operand(n.input(0));
  const std::uint32_t result = builder.value(n.output(0));
  const DataType from = n.input_value(0).type.element, to = cast_target(n);
  if (from == to || (to == DataType::kFloat && is_half(from))) {
    builder.add(builder.op(kind::kIdentity, n), {src}, result);
    return {};
  }
  if (to == DataType::kFloat) {  // integers: one unit each
    builder.add(builder.op(kind::kPoint, n), {src}, result);
    return {};
  }
  // What is asked for is the rounding: through the other type and back.
  const std::uint32_t half =
      builder.temporary(n.output_value(0).name + "/half", builder.at(result).dims, to);
  builder.add(builder.op(kind::kPoint, n), {src}, half);
  builder.add(builder.op(kind::kPoint, n), {Operand::value(half)}, result);
  return {};
}

}  // namespace ctxgen::onednn
