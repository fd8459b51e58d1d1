#include <cmath>

#include "ctxgen/onednn/op_kinds.h"

#include "../../op_row.h"
#include "../ops.h"
#include "../quantization.h"
#include "byte_weights.h"

// com.microsoft: QGemm, as ONNX Runtime's quantize_static writes a Gemm: exact sums of bytes, which the
// scales make real or bytes again.
namespace ctxgen::onednn {

namespace {

enum Input : std::size_t { kA, kAScale, kAZero, kB, kBScale, kBZero, kC, kYScale, kYZero };

struct QGemm {
  ByteWeights weights;
  std::vector<float> scales;  // one or N: alpha * scale of A * scales of B
  std::optional<Quantization> result;
  bool trans_a = false, trans_b = false;
};

/// C counts in units of the scales: one number, or a row of N.
Refusal check_c(const NodeView& n, std::int64_t columns) {
  if (!n.has_input(kC)) return std::nullopt;
  const Tensor* c = n.constant(kC);
  if (c == nullptr) return "C is not constant";
  if (c->type() != DataType::kInt32) return std::format("C is {}", name_of(c->type()));
  const bool row = c->element_count() == columns && c->rank() > 0 && c->dims().back() == columns;
  if (c->rank() > 2 || (c->element_count() != 1 && !row))
    return std::format("C has dims {}", to_string(c->dims()));
  return std::nullopt;
}

Refusal read_scales(const NodeView& n, QGemm& read) {
  const auto a = read_quantization(n, kAScale, kAZero);
  if (!a) return a.error();
  if (n.has_input(kAZero) && a->type != n.input_value(kA).type.element)
    return "zero point of A of another type";
  CTXGEN_REFUSE(require_vector(n, kBScale, read.weights.matrix.n, "scale of B"));
  const float alpha = n.node().float_or("alpha", 1.0F);
  for (const float scale : floats_of(*n.constant(kBScale))) {
    read.scales.push_back(alpha * a->scale * scale);
    if (!std::isfinite(read.scales.back())) return std::format("scale is {}", read.scales.back());
  }
  return std::nullopt;
}

Read<QGemm> read_qgemm(const NodeView& n) {
  QGemm read;
  read.trans_a = n.node().int_or("transA", 0) != 0;
  read.trans_b = n.node().int_or("transB", 0) != 0;
  read.weights =
      CTXGEN_TRY(read_byte_weights(n, kB, kBZero, read.trans_b ? Stored::kColumns : Stored::kRows));
  CTXGEN_REFUSE(require_value(n, kA, {DataType::kUint8, DataType::kInt8}));
  if (n.rank(kA) != 2) return refuse("A has rank {}, expected 2", n.rank(kA));
  const Dim depth = n.input_dims(kA)[read.trans_a ? 0 : 1];
  if (depth.is_fixed() && depth.value() != read.weights.matrix.k)
    return refuse("rows of {} elements by {} x ...", depth.value(), read.weights.matrix.k);
  if (!n.has_input(kAScale) || !n.has_input(kBScale)) return refuse("a scale is absent");
  CTXGEN_REFUSE(read_scales(n, read));
  CTXGEN_REFUSE(check_c(n, read.weights.matrix.n));
  const ValueType& result = n.output_value(0).type;
  if (!result.is_tensor() || !result.has_rank()) return refuse("rank of the result is unknown");
  if (n.has_input(kYScale) != n.has_input(kYZero))
    return refuse("only one of the scale and the zero point of Y");
  if (n.has_input(kYScale)) read.result = CTXGEN_TRY(read_quantization(n, kYScale, kYZero));
  const DataType expected = read.result ? read.result->type : DataType::kFloat;
  if (result.element != expected || expected == DataType::kInt32)
    return refuse("result is {}, expected {}", name_of(result.element), name_of(expected));
  return read;
}

/// C times the scales.
Result<Tensor> real_c(const QGemm& read, const Tensor& c) {
  const std::vector<std::int32_t> counts = integers_of(c);
  std::vector<float> values(static_cast<std::size_t>(read.weights.matrix.n));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = read.scales[read.scales.size() == 1 ? 0 : i];
    values[i] = static_cast<float>(double{scale} * counts[counts.size() == 1 ? 0 : i]);
  }
  return tensor_of(Dims{read.weights.matrix.n}, values);
}

/// A as rows.
Operand rows_of(const NodeView& n, bool transposed, ProgramBuilder& builder) {
  const Operand a = builder.operand(n.input(kA));
  if (!transposed) return a;
  const std::vector<ProgramDim> dims = builder.at(a.index).dims;
  const std::uint32_t rows = builder.temporary(n.input_value(kA).name + "/rows", {dims[1], dims[0]},
                                               n.input_value(kA).type.element);
  ProgramOp op = builder.op(kind::kTranspose, n);
  encode(TransposeParams{.perm = {1, 0}}, op);
  builder.add(std::move(op), {a}, rows);
  return Operand::value(rows);
}

}  // namespace

Refusal check_qgemm(const NodeView& n) { return refusal_of(read_qgemm(n)); }

Status lower_qgemm(const NodeView& n, ProgramBuilder& builder) {
  QGemm read = CTXGEN_TRY(accepted(read_qgemm(n), n));
  Tensor rows;
  if (read.trans_b) {
    rows = CTXGEN_TRY(byte_rows(*n.constant(kB)));
    read.weights.source.values = reinterpret_cast<const std::uint8_t*>(rows.bytes().data());
  }
  const std::string& name = n.input_value(kB).name;
  const Dims one = read.scales.size() == 1 ? Dims{} : Dims{read.weights.matrix.n};
  const Tensor scales = CTXGEN_TRY(tensor_of(one, read.scales));
  ByteOperands operands{
      .a = rows_of(n, read.trans_a, builder),
      .zero = byte_operand(n.view(), n.has_input(kAZero) ? n.input(kAZero) : ValueId{}, builder),
      .scales = builder.weight(name + "/scales", scales)};
  if (n.has_input(kC))
    operands.bias =
        builder.weight(n.input_value(kC).name + "/real", CTXGEN_TRY(real_c(read, *n.constant(kC))));
  const std::uint32_t real = read.result ? real_result(n, builder) : builder.value(n.output(0));
  CTXGEN_CHECK(add_byte_matmul(n, kB, read.weights, operands, builder.op(kind::kByteMatmul, n),
                               real, builder));
  if (read.result) add_quantize(n, real, *read.result, builder);
  return {};
}

}  // namespace ctxgen::onednn
