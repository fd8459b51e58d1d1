#include "kinds/quantized/byte_form.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ctxgen/onednn/kind_traits.h"

#include "kernels/kernel_loops.h"
#include "plan/params.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

/// What a post-op with only_bounds() holds numbers between.
struct Range {
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};
Range range_of(const PostOp& post) {
  return post.kind == "relu" ? Range{.least = 0} : Range{post.alpha, post.beta};
}

/// A result of bytes needs a scale, and a zero point that is one.
Status check_byte_result(const ProgramOp& op, DataType type) {
  const auto params = CTXGEN_TRY(decode<ByteMatmulParams>(op));
  const double scale = params.out_scale.value_or(0);
  const std::int64_t zero = params.out_zero.value_or(0), low = type == DataType::kInt8 ? -128 : 0;
  const auto single = static_cast<float>(scale);
  if (!(single > 0) || !std::isfinite(single) || zero < low || zero > low + 255)
    return fail(ErrorCode::kInvalidGraph, "{}: result of scale {}, zero point {}", label(op), scale,
                zero);
  if (std::ranges::all_of(op.post_ops, only_bounds)) return {};
  return fail(ErrorCode::kUnsupported, "{}: a result of bytes takes no post-ops but bounds",
              label(op));
}

/// How the real numbers of an op become its bytes. Holding a number and then rounding it is the same as
/// rounding number and bounds: both never fall where the number rises.
kernels::ByteSteps steps_of(const ProgramOp& op, DataType type) {
  const ByteMatmulParams params = decode<ByteMatmulParams>(op).value_or(ByteMatmulParams());
  const std::int32_t low = type == DataType::kInt8 ? -128 : 0;
  const auto zero = static_cast<std::int32_t>(params.out_zero.value_or(0));
  kernels::ByteSteps steps{.scale = static_cast<float>(params.out_scale.value_or(1)),
                           .zero = zero,
                           .least = low - zero,
                           .most = low + 255 - zero};
  Range all;
  for (const PostOp& post : op.post_ops) {
    const Range range = range_of(post);
    all = {std::clamp(all.least, range.least, range.most),
           std::clamp(all.most, range.least, range.most)};
  }
  const auto bound = [&](float real) {
    const float held = std::clamp(real / steps.scale, static_cast<float>(low - zero),
                                  static_cast<float>(low + 255 - zero));
    return static_cast<std::int32_t>(std::nearbyint(held));
  };
  steps.least = bound(all.least);
  steps.most = bound(all.most);
  return steps;
}

}  // namespace

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
  CTXGEN_CHECK(
      expect_type(program, op, result,
                  {DataType::kFloat, DataType::kInt32, DataType::kUint8, DataType::kInt8}));
  const DataType type = operand_type(program, result);
  if (is_byte(type)) return check_byte_result(op, type);
  const bool bare = op.inputs.size() <= kBytesScale && op.post_ops.empty();
  if (type == DataType::kInt32 && !bare)
    return fail(ErrorCode::kUnsupported, "{}: an int32 result takes no bias, scales or post-ops",
                label(op));
  return {};
}

Result<kernels::ByteMatrix> byte_matrix(const ProgramOp& op, const ByteMatmulParams& params) {
  const kernels::ByteMatrix matrix{.k = params.k,
                                   .n = params.n,
                                   .zeros = params.zeros,
                                   .limits = params.limits.value_or(0) != 0};
  if (!kernels::is_valid(matrix))
    return fail(ErrorCode::kInvalidGraph, "{}: {} x {}", label(op), params.k, params.n);
  return matrix;
}

Status check_byte_operands(const ProgramOp& op, const kernels::ByteMatrix& matrix,
                           std::uint64_t matrix_bytes, ShapeInputs in) {
  if (in[kBytesMatrix].dims.size() != 1 ||
      std::cmp_not_equal(in[kBytesMatrix].dims[0], matrix_bytes))
    return fail(ErrorCode::kInvalidGraph, "{}: packed matrix {}, expected {} bytes", label(op),
                to_string(in[kBytesMatrix].dims), matrix_bytes);
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
  const DataType result = builder.output().type;
  if (is_byte(result)) steps = steps_of(builder.op(), result);
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
          .bytes = steps ? reinterpret_cast<std::uint8_t*>(dst) : nullptr,
          .out = sums || steps ? nullptr : reinterpret_cast<float*>(dst),
          .steps = steps.value_or(kernels::ByteSteps()),
          .a_scale = reals(kBytesScale),
          .b_scales = reals(kBytesScales),
          .scale_per_column = scale_per_column,
          .bias = reals(kBytesBias)};
}

void ByteForm::move_result(std::int64_t row, kernels::ByteProduct& product) const {
  const std::int64_t at = row * matrix.n;
  if (product.sums != nullptr) product.sums += at;
  if (product.bytes != nullptr) product.bytes += at;
  if (product.out != nullptr) product.out += at;
}

std::int64_t ByteForm::work(std::int64_t rows) const {
  return work_of(work_of(rows, matrix.n), matrix.k / 8 + 1);
}

}  // namespace ctxgen::onednn
