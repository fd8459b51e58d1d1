#include "quantization.h"

#include <cmath>

#include "ctxgen/onednn/op_kinds.h"

namespace ctxgen::onednn {

Read<Quantization> read_quantization(const NodeView& n, std::size_t scale, std::size_t zero) {
  Quantization q;
  const Tensor* number = CTXGEN_TRY(constant_f32(n, scale, "scale"));
  if (number->type() != DataType::kFloat) return refuse("scale is float16");
  if (number->element_count() != 1 || number->rank() > 1) return refuse("scale is per channel");
  q.scale = floats_of(*number)[0];
  if (!(q.scale > 0.0F) || !std::isfinite(q.scale)) return refuse("scale is {}", q.scale);
  if (!n.has_input(zero)) return q;
  const Tensor* point = n.constant(zero);
  if (point == nullptr) return refuse("zero point is not constant");
  if (point->element_count() != 1) return refuse("zero point is per channel");
  q.type = point->type();
  if (q.type != DataType::kUint8 && q.type != DataType::kInt8 && q.type != DataType::kInt32) {
    return refuse("zero point of type {}", name_of(q.type));
  }
  q.zero = integers_of(*point)[0];
  return q;
}

Operand add_dequantize(const NodeView& n, std::size_t input, const Quantization& from,
                       ProgramBuilder& builder) {
  const Operand src = builder.operand(n.input(input));
  ProgramOp op = builder.op(kind::kPoint, n);
  encode(PointParams{.in_scale = double{from.scale}, .in_zero = from.zero}, op);
  const std::uint32_t real =
      builder.temporary(n.input_value(input).name + "/real", builder.at(src.index).dims);
  builder.add(std::move(op), {src}, real);
  return Operand::value(real);
}

std::uint32_t real_result(const NodeView& n, ProgramBuilder& builder) {
  const std::uint32_t result = builder.value(n.output(0));
  return builder.temporary(n.output_value(0).name + "/real", builder.at(result).dims);
}

void add_quantize(const NodeView& n, std::uint32_t real, const Quantization& to,
                  ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kPoint, n);
  encode(PointParams{.out_scale = double{to.scale}, .out_zero = to.zero}, op);
  builder.add(std::move(op), {Operand::value(real)}, builder.value(n.output(0)));
}

Result<Operand> add_quantized_weight(const NodeView& n, std::size_t input,
                                     const QuantizedWeight& weight, ProgramBuilder& builder) {
  const Operand made = builder.weight(n.input_value(input).name, CTXGEN_TRY(dequantized(weight)));
  builder.note_quantized(made, weight);
  return made;
}

}  // namespace ctxgen::onednn
