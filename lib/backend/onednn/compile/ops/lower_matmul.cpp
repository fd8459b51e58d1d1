#include <algorithm>

#include "ctxgen/onednn/op_kinds.h"

#include "../op_row.h"
#include "ops.h"

namespace ctxgen::onednn {

namespace {

struct GemmParams {
  bool trans_a = false, trans_b = false;
  float alpha = 1.0F, beta = 1.0F;
};

Read<GemmParams> read_gemm(const NodeView& n) {
  const bool has_c = n.has_input(2);
  if (Refusal refusal = has_c ? require_f32(n, {0, 1, 2}) : require_f32(n, {0, 1})) {
    return std::unexpected(*refusal);
  }
  if (n.rank(0) != 2 || n.rank(1) != 2) {
    return refuse("A and B have ranks {} and {}, expected 2", n.rank(0), n.rank(1));
  }
  if (has_c && n.rank(2) > 2) return refuse("C has rank {}, expected at most 2", n.rank(2));
  if (n.constant(0) != nullptr && n.constant(1) != nullptr) return refuse("A and B are constant");
  return GemmParams{.trans_a = n.node().int_or("transA", 0) != 0,
                    .trans_b = n.node().int_or("transB", 0) != 0,
                    .alpha = n.node().float_or("alpha", 1.0F),
                    .beta = n.node().float_or("beta", 1.0F)};
}

Result<Tensor> scaled(const Tensor& tensor, float factor) {
  if (factor == 1.0F) return tensor;
  std::vector<float> values = floats_of(tensor);
  for (float& value : values) value *= factor;
  return tensor_of(tensor.dims(), values);
}

/// C as a bias [N]: a constant that is the same in every row, where N is known.
Result<std::optional<Tensor>> bias_of(const NodeView& n, const GemmParams& params) {
  const Tensor* c = n.constant(2);
  const Dim width = n.output_dims(0).size() == 2 ? n.output_dims(0)[1] : Dim{};
  if (c == nullptr || !width.is_fixed() || width.value() > kMostSpread) return std::nullopt;
  const auto count = c->element_count();
  const bool is_row = c->rank() > 0 && c->dims().back() == count;
  if (count != 1 && !(is_row && count == width.value())) return std::nullopt;
  std::vector<float> values = floats_of(CTXGEN_TRY(scaled(*c, params.beta)));
  if (count == 1) values.assign(static_cast<std::size_t>(width.value()), values[0]);
  return CTXGEN_TRY(tensor_of(Dims{width.value()}, values));
}

/// beta * C as an operand of any broadcastable shape.
Result<Operand> addend(const NodeView& n, const GemmParams& params, ProgramBuilder& builder) {
  if (const Tensor* c = n.constant(2)) {
    if (params.beta == 1.0F) return builder.operand(n.input(2));
    return builder.weight(n.input_value(2).name, CTXGEN_TRY(scaled(*c, params.beta)));
  }
  const Operand c = builder.operand(n.input(2));
  if (params.beta == 1.0F) return c;
  const std::uint32_t product =
      builder.temporary(n.input_value(2).name + "/beta", builder.at(c.index).dims);
  builder.add_eltwise(n, "linear", params.beta, 0.0F, c, product);
  return Operand::value(product);
}

/// A vector operand of MatMul as a matrix: a row on the left, a column on the right.
Operand as_matrix(const NodeView& n, std::size_t i, ProgramBuilder& builder) {
  if (n.rank(i) != 1) return builder.operand(n.input(i));
  const std::int64_t axis = i == 0 ? 0 : 1;
  const std::string name = n.input_value(i).name + "/matrix";
  if (const Tensor* vector = n.constant(i)) {
    const std::int64_t length = vector->element_count();
    return builder.weight(name, vector->with_dims(i == 0 ? Dims{1, length} : Dims{length, 1}));
  }
  const Operand vector = builder.operand(n.input(i));
  std::vector<ProgramDim> dims = builder.at(vector.index).dims;
  dims.insert(dims.begin() + axis, ProgramDim{.value = 1});
  const std::uint32_t matrix = builder.temporary(name, std::move(dims));
  ProgramOp op = builder.op(kind::kUnsqueeze, n);
  encode(AxesParams{{axis}}, op);
  builder.add(std::move(op), {vector}, matrix);
  return Operand::value(matrix);
}

}  // namespace

Refusal check_gemm(const NodeView& n) { return refusal_of(read_gemm(n)); }

Status lower_gemm(const NodeView& n, ProgramBuilder& builder) {
  return emit_gemm(n, builder, builder.value(n.output(0)));
}

Status emit_gemm(const NodeView& n, ProgramBuilder& builder, std::uint32_t result) {
  const GemmParams params = CTXGEN_TRY(accepted(read_gemm(n), n));
  ProgramOp op = builder.op(kind::kMatmul, n);
  encode(MatmulParams{.trans_a = params.trans_a, .trans_b = params.trans_b}, op);
  std::vector<Operand> inputs;
  bool scale_result = params.alpha != 1.0F;
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor* matrix = n.constant(i);
    if (matrix == nullptr || params.alpha == 1.0F) {
      inputs.push_back(builder.operand(n.input(i)));
      continue;
    }
    inputs.push_back(
        builder.weight(n.input_value(i).name, CTXGEN_TRY(scaled(*matrix, params.alpha))));
    scale_result = false;
  }
  // A factor that no constant takes is between product and addition: alpha * A * B + C.
  if (scale_result) op.post_ops.push_back(eltwise_step("linear", params.alpha));
  const std::optional<Tensor> bias = scale_result ? std::nullopt : CTXGEN_TRY(bias_of(n, params));
  if (bias) {
    inputs.push_back(builder.weight(n.input_value(2).name, *bias));
  }
  if (bias || !n.has_input(2)) {
    builder.add(std::move(op), inputs, result);
    return {};
  }
  const std::uint32_t product =
      builder.temporary(n.output_value(0).name + "/product", builder.at(result).dims);
  builder.add(std::move(op), inputs, product);
  const Operand c = CTXGEN_TRY(addend(n, params, builder));
  builder.add_binary(n, "add", Operand::value(product), c, result);
  return {};
}

Refusal check_matmul(const NodeView& n) {
  if (Refusal refusal = require_f32(n, {0, 1})) return refusal;
  if (n.rank(0) == 0 || n.rank(1) == 0) return "an operand is a scalar";
  return std::nullopt;
}

Status lower_matmul(const NodeView& n, ProgramBuilder& builder) {
  ProgramOp op = builder.op(kind::kMatmul, n);
  encode(MatmulParams{}, op);
  const Operand a = as_matrix(n, 0, builder);
  const Operand b = as_matrix(n, 1, builder);
  const std::uint32_t result = builder.value(n.output(0));
  // At most one operand is a vector: the product of two would be a scalar, which is refused.
  const bool row = n.rank(0) == 1;
  if (!row && n.rank(1) != 1) {
    builder.add(std::move(op), {a, b}, result);
    return {};
  }
  std::vector<ProgramDim> dims = builder.at(result).dims;
  dims.insert(dims.end() - (row ? 1 : 0), ProgramDim{.value = 1});
  const std::uint32_t product =
      builder.temporary(n.output_value(0).name + "/product", std::move(dims));
  builder.add(std::move(op), {a, b}, product);
  ProgramOp squeeze = builder.op(kind::kSqueeze, n);
  encode(AxesParams{{row ? -2 : -1}}, squeeze);
  builder.add(std::move(squeeze), {Operand::value(product)}, result);
  return {};
}

}  // namespace ctxgen::onednn
