#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/kernels/dynamic_quantize.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Values rounded to bytes by their own range, and exact products of bytes, by our own kernels: the same
// on every instruction set, with zero points that are values.
namespace ctxgen::onednn {

namespace {

// ---- dynamic_quantize ----

/// The scale comes first: it is there for an empty source, too.
enum DynamicOutput : std::uint8_t { kScaleOut, kZeroOut, kBytesOut, kDynamicOutputs };

Status check_dynamic_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0], {DataType::kFloat}));
  if (op.outputs.size() != kDynamicOutputs)
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, expected {}", label(op),
                op.outputs.size(), static_cast<int>(kDynamicOutputs));
  const auto expect = [&](DynamicOutput which, DataType type) {
    return expect_type(program, op, Operand::value(op.outputs[which]), {type});
  };
  CTXGEN_CHECK(expect(kScaleOut, DataType::kFloat));
  CTXGEN_CHECK(expect(kZeroOut, DataType::kUint8));
  return expect(kBytesOut, DataType::kUint8);
}

Result<ShapeOutputs> dynamic_shape(const ProgramOp& /*op*/, ShapeInputs in) {
  return ShapeOutputs{Dims{}, Dims{}, in[0].dims};
}

Status place_dynamic(Placement& pass, std::uint32_t op) {
  const ProgramOp& quantize = pass.program().ops[op];
  const SlotId src = pass.need(quantize.inputs[0], Layout::kPlain, Placement::Density::kDense, op);
  std::vector<SlotId> outputs;
  for (const std::uint32_t value : quantize.outputs) {
    outputs.push_back(
        pass.new_slot(pass.dims(value), Layout::kPlain, pass.program().values[value].type));
    pass.set_value(value, Layout::kPlain, outputs.back());
  }
  Node& node = pass.add_node(op);
  node.inputs = {src};
  node.outputs = std::move(outputs);
  return {};
}

bool always(const ProgramOp& /*op*/) { return true; }

/// Args: src, scale, zero point, bytes.
class DynamicQuantizeKernel final : public Kernel {
 public:
  explicit DynamicQuantizeKernel(std::int64_t count) : count_(count) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::dynamic_quantize({.count = count_,
                               .x = reinterpret_cast<const float*>(args[0]),
                               .y = reinterpret_cast<std::uint8_t*>(args[3]),
                               .scale = reinterpret_cast<float*>(args[1]),
                               .zero = reinterpret_cast<std::uint8_t*>(args[2])},
                              workers);
    return {};
  }

 private:
  std::int64_t count_;
};

Status build_dynamic(NodeBuilder& builder) {
  std::vector<Arg> args{builder.slot_arg(builder.input(0))};
  for (std::size_t i = 0; i < kDynamicOutputs; ++i)
    args.push_back(builder.slot_arg(builder.output(i)));
  builder.add_kernel("loop:dynamic_quantize",
                     std::make_shared<const DynamicQuantizeKernel>(volume(builder.input(0).dims)),
                     std::move(args));
  return {};
}

// ---- byte_matmul ----

enum ByteInput : std::uint8_t {
  kBytesA,
  kBytesMatrix,
  kBytesZero,
  kBytesScale,
  kBytesScales,
  kBytesBias,
  kByteInputs
};

Result<kernels::ByteMatrix> describe_bytes(const ProgramOp& op) {
  const auto params = CTXGEN_TRY(decode<ByteMatmulParams>(op));
  const kernels::ByteMatrix matrix{.k = params.k, .n = params.n, .zeros = params.zeros};
  if (!kernels::is_valid(matrix))
    return fail(ErrorCode::kInvalidGraph, "{}: {} x {}", label(op), params.k, params.n);
  return matrix;
}

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

Result<ShapeOutputs> byte_shape(const ProgramOp& op, ShapeInputs in) {
  const kernels::ByteMatrix matrix = CTXGEN_TRY(describe_bytes(op));
  Dims out = in[kBytesA].dims;
  if (out.empty() || out.back() != matrix.k)
    return fail(ErrorCode::kInvalidGraph, "{}: {} times {} x {}", label(op), to_string(out),
                matrix.k, matrix.n);
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
  CTXGEN_CHECK(expect_count(kBytesBias, matrix.n));
  out[out.size() - 1] = matrix.n;
  return one_shape(out);
}

/// Sums are exact. They are rounded to f32, by the two scales and by the bias.
std::int64_t byte_terms(const Program& /*program*/, const ProgramOp& op) {
  return static_cast<std::int64_t>(op.inputs.size()) > kBytesScale ? 4 : 0;
}

Status place_bytes(Placement& pass, std::uint32_t op) {
  const ProgramOp& product = pass.program().ops[op];
  std::vector<SlotId> inputs;
  for (const Operand& operand : product.inputs)
    inputs.push_back(operand.kind == Operand::Kind::kNone
                         ? kNone
                         : pass.need(operand, Layout::kPlain, Placement::Density::kDense, op));
  pass.add_placed(op, Layout::kPlain, std::move(inputs));
  return {};
}

/// Args: the inputs that are there, in order, dst, scratch if there is any.
class ByteMatmulKernel final : public Kernel {
 public:
  struct Form {
    kernels::ByteMatrix matrix;
    std::int64_t rows = 0;
    bool is_signed = false, sums = false, scale_per_column = false, has_scratch = false;
    std::array<bool, kByteInputs> has{};
  };
  explicit ByteMatmulKernel(const Form& form) : form_(form) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    std::size_t next = 0;
    std::array<std::byte*, kByteInputs> input{};
    for (std::size_t i = 0; i < kByteInputs; ++i)
      if (form_.has[i]) input[i] = args[next++];
    std::byte* dst = args[next++];
    const auto reals = [&](ByteInput i) { return reinterpret_cast<const float*>(input[i]); };
    const auto bytes = [&](ByteInput i) { return reinterpret_cast<const std::uint8_t*>(input[i]); };
    kernels::byte_product({.matrix = form_.matrix,
                           .rows = form_.rows,
                           .is_signed = form_.is_signed,
                           .a = bytes(kBytesA),
                           .a_zero = bytes(kBytesZero),
                           .packed = input[kBytesMatrix],
                           .sums = form_.sums ? reinterpret_cast<std::int32_t*>(dst) : nullptr,
                           .out = form_.sums ? nullptr : reinterpret_cast<float*>(dst),
                           .a_scale = reals(kBytesScale),
                           .b_scales = reals(kBytesScales),
                           .scale_per_column = form_.scale_per_column,
                           .bias = reals(kBytesBias),
                           .scratch = form_.has_scratch ? args[next] : nullptr},
                          workers);
    return {};
  }

 private:
  Form form_;
};

Status build_bytes(NodeBuilder& builder) {
  const Slot& dst = builder.output();
  const kernels::ByteMatrix matrix = CTXGEN_TRY(describe_bytes(builder.op()));
  ByteMatmulKernel::Form form{.matrix = matrix,
                              .rows = volume(dst.dims) / matrix.n,
                              .is_signed = builder.input(kBytesA).type == DataType::kInt8,
                              .sums = dst.type == DataType::kInt32};
  const auto scratch = kernels::scratch_bytes(matrix, form.rows);
  if (!scratch || *scratch > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} rows", label(builder.op()), form.rows);
  std::vector<Arg> args;
  for (std::size_t i = 0; i < kByteInputs; ++i) {
    form.has[i] = builder.has_input(i);
    if (form.has[i]) args.push_back(builder.slot_arg(builder.input(i)));
  }
  form.scale_per_column = form.has[kBytesScales] && volume(builder.input(kBytesScales).dims) > 1;
  form.has_scratch = *scratch > 0;
  args.push_back(builder.slot_arg(dst));
  if (form.has_scratch) args.push_back(scratch_arg());
  builder.add_kernel(
      "loop:byte_matmul", std::make_shared<const ByteMatmulKernel>(form), std::move(args),
      {.flops = 2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(matrix.k),
       .scratch_bytes = *scratch});
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kByteMatmulRow{
    .name = kind::kByteMatmul,
    .number = 39,
    .inputs = {2, kByteInputs},
    .traits = {.absorbs_eltwise = true},
    .types = check_byte_types,
    .shape = byte_shape,
    .terms = byte_terms,
    .place = place_bytes,
    .build = build_bytes,
};

constinit const KindRow kDynamicQuantizeRow{
    .name = kind::kDynamicQuantize,
    .number = 40,
    .inputs = {1, 1},
    .traits = {.post_ops = false, .takes_empty = true},
    .types = check_dynamic_types,
    .shape = dynamic_shape,
    .quantises = always,
    .place = place_dynamic,
    .build = build_dynamic,
};

}  // namespace ctxgen::onednn
