#include "ctxgen/kernels/byte_product.h"
#include "ctxgen/kernels/dynamic_quantize.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "kinds/quantized/byte_form.h"
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
  const Layout layout = pass.primary_of(quantize.inputs[0]);
  const SlotId src = pass.need(quantize.inputs[0], layout, Placement::Density::kDense, op);
  std::vector<SlotId> outputs;
  for (const std::uint32_t value : quantize.outputs) {
    const Layout as = value == quantize.outputs[kBytesOut] ? layout : Layout::kPlain;
    outputs.push_back(pass.new_slot(pass.dims(value), as, pass.program().values[value].type));
    pass.set_value(value, as, outputs.back());
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

Result<kernels::ByteMatrix> describe_bytes(const ProgramOp& op) {
  return byte_matrix(op, CTXGEN_TRY(decode<ByteMatmulParams>(op)));
}

Result<ShapeOutputs> byte_shape(const ProgramOp& op, ShapeInputs in) {
  const kernels::ByteMatrix matrix = CTXGEN_TRY(describe_bytes(op));
  Dims out = in[kBytesA].dims;
  if (out.empty() || out.back() != matrix.k)
    return fail(ErrorCode::kInvalidGraph, "{}: {} times {} x {}", label(op), to_string(out),
                matrix.k, matrix.n);
  CTXGEN_CHECK(check_byte_operands(op, matrix, kernels::packed_bytes(matrix), in));
  out[out.size() - 1] = matrix.n;
  return one_shape(out);
}

Status place_bytes(Placement& pass, std::uint32_t op) {
  return place_byte_op(pass, op, Layout::kPlain);
}

/// Args: those of ByteForm, scratch if there is any.
class ByteMatmulKernel final : public Kernel {
 public:
  ByteMatmulKernel(const ByteForm& form, std::int64_t rows, int threads, bool has_scratch)
      : form_(form), rows_(rows), threads_(threads), has_scratch_(has_scratch) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::ByteProduct product = form_.product(args);
    product.rows = rows_;
    product.lanes = threads_;
    product.scratch = has_scratch_ ? args[0] : nullptr;
    kernels::byte_product(product, workers);
    return {};
  }

 private:
  ByteForm form_;
  std::int64_t rows_;
  int threads_;
  bool has_scratch_;
};

Status build_bytes(NodeBuilder& builder) {
  const Slot& dst = builder.output();
  const kernels::ByteMatrix matrix = CTXGEN_TRY(describe_bytes(builder.op()));
  const std::int64_t rows = volume(dst.dims) / matrix.n;
  const auto scratch = kernels::scratch_bytes(matrix, rows);
  if (!scratch || *scratch > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} rows", label(builder.op()), rows);
  std::vector<Arg> args;
  const ByteForm form(builder, matrix, args);
  if (*scratch > 0) args.push_back(scratch_arg());
  builder.add_kernel(
      "loop:byte_matmul",
      std::make_shared<const ByteMatmulKernel>(form, rows, builder.context().threads, *scratch > 0),
      std::move(args),
      {.flops = 2.0 * static_cast<double>(volume(dst.dims)) * static_cast<double>(matrix.k),
       .scratch_bytes = *scratch});
  if (form.steps) return {};
  return builder.add_chain(dst, dst, builder.node().post_ops);
}

}  // namespace

constinit const KindRow kByteMatmulRow{
    .name = kind::kByteMatmul,
    .number = 39,
    .inputs = {2, kByteInputs},
    .traits = {.own_bytes = true, .absorbs_eltwise = true},
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
