#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "kinds/quantized/low_bit_matrix_of.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/placement_rules.h"
#include "rules/rounding.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Products with matrices of 2, 4 or 8-bit integers, by our own kernels: oneDNN has none for the packed
// order that serves every number of rows and every instruction set.
namespace ctxgen::onednn {

namespace {

struct LowBit {
  kernels::LowBitMatrix matrix;
  kernels::LowBitCompute compute;
};

Result<LowBit> describe_low_bit(const ProgramOp& op) {
  const auto params = CTXGEN_TRY(decode<LowBitMatmulParams>(op));
  LowBit low{CTXGEN_TRY(low_bit_matrix(op, params)), {}};
  if (params.compute == "int8")
    low.compute = kernels::LowBitCompute::kInt8;
  else if (params.compute != "float")
    return fail(ErrorCode::kUnsupported, "{}: compute \"{}\"", label(op), params.compute);
  const bool fits = low.compute == kernels::LowBitCompute::kFloat ||
                    low.matrix.zeros != kernels::ZeroPoints::kFloat;
  if (!fits)
    return fail(ErrorCode::kInvalidGraph, "{}: zeros {}, {}", label(op), params.zeros,
                params.compute);
  return low;
}

Status check_low_bit_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect_type(program, op, input(0), {DataType::kFloat}));
  CTXGEN_CHECK(expect_type(program, op, input(1), {DataType::kUint8}));
  CTXGEN_CHECK(expect_type(program, op, input(2), {DataType::kFloat}));
  if (input(1).kind == Operand::Kind::kValue)
    return fail(ErrorCode::kUnsupported, "{}: the matrix is not a weight", label(op));
  return expect_type(program, op, Operand::value(op.outputs[0]), {DataType::kFloat});
}

Result<ShapeOutputs> low_bit_shape(const ProgramOp& op, ShapeInputs in) {
  const LowBit low = CTXGEN_TRY(describe_low_bit(op));
  Dims out = in[0].dims;
  if (out.empty() || out.back() != low.matrix.k)
    return fail(ErrorCode::kInvalidGraph, "{}: {} times {} x {}", label(op), to_string(out),
                low.matrix.k, low.matrix.n);
  CTXGEN_CHECK(expect_packed(op, low.matrix, in[1].dims));
  if (in.size() > 2 && in[2].present && in[2].dims != Dims{low.matrix.n})
    return fail(ErrorCode::kInvalidGraph, "{}: bias {}, expected [{}]", label(op),
                to_string(in[2].dims), low.matrix.n);
  out[out.size() - 1] = low.matrix.n;
  return one_shape(out);
}

std::int64_t low_bit_terms(const Program& /*program*/, const ProgramOp& op) {
  const std::int64_t k = decode<LowBitMatmulParams>(op).value_or(LowBitMatmulParams()).k;
  return std::clamp<std::int64_t>(k, 1, kMostTerms);
}

bool low_bit_quantises(const ProgramOp& op) {
  const auto params = decode<LowBitMatmulParams>(op);
  return params && params->compute == "int8";
}

Status place_low_bit(Placement& pass, std::uint32_t op) {
  const ProgramOp& product = pass.program().ops[op];
  const auto plain = [&](std::size_t i) {
    return pass.need(product.inputs[i], Layout::kPlain, Placement::Density::kDense, op);
  };
  const SlotId src = plain(0), matrix = plain(1), bias = place_vector(pass, op, 2);
  pass.add_placed(op, Layout::kPlain, {src, matrix, bias});
  return {};
}

/// Args: src, packed matrix, dst, scratch if there is any, bias if there is one.
class LowBitKernel final : public Kernel {
 public:
  LowBitKernel(const LowBit& low, std::int64_t rows, int threads, bool has_scratch, bool has_bias)
      : low_(low), rows_(rows), threads_(threads), has_scratch_(has_scratch), has_bias_(has_bias) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    kernels::low_bit_product(
        {.matrix = low_.matrix,
         .compute = low_.compute,
         .rows = rows_,
         .a = reinterpret_cast<const float*>(args[0]),
         .packed = args[1],
         .bias = has_bias_ ? reinterpret_cast<const float*>(args[has_scratch_ ? 4 : 3]) : nullptr,
         .out = reinterpret_cast<float*>(args[2]),
         .scratch = has_scratch_ ? args[3] : nullptr,
         .run_scratch = true,
         .lanes = threads_},
        workers);
    return {};
  }

 private:
  LowBit low_;
  std::int64_t rows_;
  int threads_;
  bool has_scratch_, has_bias_;
};

Status build_low_bit(NodeBuilder& builder) {
  const LowBit low = CTXGEN_TRY(describe_low_bit(builder.op()));
  const std::int64_t rows = volume(builder.output().dims) / low.matrix.n;
  const auto scratch = kernels::scratch_bytes(low.matrix, low.compute, rows);
  const auto run_scratch = kernels::run_scratch_bytes(low.matrix, low.compute, rows);
  if (!scratch || !run_scratch || *run_scratch > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: {} rows", label(builder.op()), rows);
  std::vector<Arg> args{builder.slot_arg(builder.input(0)), builder.slot_arg(builder.input(1)),
                        builder.slot_arg(builder.output())};
  if (*scratch > 0) args.push_back(scratch_arg());
  if (builder.has_input(2)) args.push_back(builder.slot_arg(builder.input(2)));
  builder.add_kernel("loop:low_bit_matmul",
                     std::make_shared<const LowBitKernel>(low, rows, builder.context().threads,
                                                          *scratch > 0, builder.has_input(2)),
                     std::move(args),
                     {.flops = 2.0 * static_cast<double>(volume(builder.output().dims)) *
                               static_cast<double>(low.matrix.k),
                      .scratch_bytes = *scratch,
                      .run_scratch_bytes = *run_scratch});
  return {};
}

}  // namespace

constinit const KindRow kLowBitMatmulRow{
    .name = kind::kLowBitMatmul,
    .number = 36,
    .inputs = {2, 3},
    .traits = {.post_ops = false},
    .types = check_low_bit_types,
    .shape = low_bit_shape,
    .terms = low_bit_terms,
    .quantises = low_bit_quantises,
    .place = place_low_bit,
    .build = build_low_bit,
};

}  // namespace ctxgen::onednn
