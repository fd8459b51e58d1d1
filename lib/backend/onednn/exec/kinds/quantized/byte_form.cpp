#include "kinds/quantized/byte_form.h"

#include <utility>

#include "plan/params.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

Status check_byte_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect_type(program, op, input(kBytesA), {DataType::kUint8, DataType::kInt8}));
  CTXGEN_CHECK(expect_type(program, op, input(kBytesMatrix), {DataType::kUint8}));
  CTXGEN_CHECK(
      expect_type(program, op, input(kBytesZero), {operand_type(program, input(kBytesA))}));
  for (const ByteInput real : {kBytesScale, kBytesScales, kBytesBias})
    CTXGEN_CHECK(expect_type(program, op, input(real), {DataType::kFloat}));
  if (input(kBytesMatrix).kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: the matrix is not a weight", label(op));
  const Operand result = Operand::value(op.outputs[0]);
  CTXGEN_CHECK(expect_type(program, op, result, {DataType::kFloat, DataType::kInt32}));
  const bool bare = op.inputs.size() <= kBytesScale && op.post_ops.empty();
  if (operand_type(program, result) == DataType::kInt32 && !bare)
    return fail(ErrorCode::kUnsupported, "{}: an int32 result takes no bias, scales or post-ops",
                label(op));
  return {};
}

Result<kernels::ByteMatrix> byte_matrix(const ProgramOp& op, const ByteMatmulParams& params) {
  const kernels::ByteMatrix matrix{.k = params.k, .n = params.n, .zeros = params.zeros};
  if (!kernels::is_valid(matrix))
    return fail(ErrorCode::kInvalidGraph, "{}: {} x {}", label(op), params.k, params.n);
  return matrix;
}

Status check_byte_operands(const ProgramOp& op, const kernels::ByteMatrix& matrix, ShapeInputs in) {
  const std::uint64_t bytes = kernels::packed_bytes(matrix);
  if (in[kBytesMatrix].dims.size() != 1 || std::cmp_not_equal(in[kBytesMatrix].dims[0], bytes))
    return fail(ErrorCode::kInvalidGraph, "{}: packed matrix {}, expected {} bytes", label(op),
                to_string(in[kBytesMatrix].dims), bytes);
  const auto expect_count = [&](ByteInput which, std::int64_t most) -> Status {
    if (which >= in.size() || !in[which].present) return {};
    const std::int64_t count = volume(in[which].dims);
    if (count == most || (count == 1 && which != kBytesBias)) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: input {} of dims {}, expected {} elements",
                label(op), static_cast<int>(which), to_string(in[which].dims), most);
  };
  CTXGEN_CHECK(expect_count(kBytesZero, 1));
  CTXGEN_CHECK(expect_count(kBytesScale, 1));
  CTXGEN_CHECK(expect_count(kBytesScales, matrix.n));
  return expect_count(kBytesBias, matrix.n);
}

std::int64_t byte_terms(const Program& /*program*/, const ProgramOp& op) {
  return static_cast<std::int64_t>(op.inputs.size()) > kBytesScale ? 4 : 0;
}

Status place_byte_op(Placement& pass, std::uint32_t op, Layout layout) {
  const ProgramOp& product = pass.program().ops[op];
  std::vector<SlotId> inputs;
  for (const Operand& operand : product.inputs) {
    const Layout as = inputs.empty() ? layout : Layout::kPlain;
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : pass.need(operand, as, Placement::Density::kDense, op));
  }
  pass.add_placed(op, layout, std::move(inputs));
  return {};
}

ByteForm::ByteForm(NodeBuilder& builder, const kernels::ByteMatrix& of, std::vector<Arg>& args)
    : matrix(of),
      is_signed(builder.input(kBytesA).type == DataType::kInt8),
      sums(builder.output().type == DataType::kInt32) {
  for (std::size_t i = 0; i < kByteInputs; ++i) {
    has[i] = builder.has_input(i);
    if (has[i]) args.push_back(builder.slot_arg(builder.input(i)));
  }
  scale_per_column = has[kBytesScales] && volume(builder.input(kBytesScales).dims) > 1;
  args.push_back(builder.slot_arg(builder.output()));
}

kernels::ByteProduct ByteForm::product(std::byte* const*& args) const {
  std::array<std::byte*, kByteInputs> input{};
  for (std::size_t i = 0; i < kByteInputs; ++i)
    if (has[i]) input[i] = *args++;
  std::byte* dst = *args++;
  const auto reals = [&](ByteInput i) { return reinterpret_cast<const float*>(input[i]); };
  const auto bytes = [&](ByteInput i) { return reinterpret_cast<const std::uint8_t*>(input[i]); };
  return {.matrix = matrix,
          .is_signed = is_signed,
          .a = bytes(kBytesA),
          .a_zero = bytes(kBytesZero),
          .packed = input[kBytesMatrix],
          .sums = sums ? reinterpret_cast<std::int32_t*>(dst) : nullptr,
          .out = sums ? nullptr : reinterpret_cast<float*>(dst),
          .a_scale = reals(kBytesScale),
          .b_scales = reals(kBytesScales),
          .scale_per_column = scale_per_column,
          .bias = reals(kBytesBias)};
}

}  // namespace ctxgen::onednn
