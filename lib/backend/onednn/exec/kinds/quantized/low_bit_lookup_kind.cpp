#include <atomic>

#include "ctxgen/kernels/low_bit.h"
#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernel_loops.h"
#include "kinds/kind_rows.h"
#include "kinds/quantized/low_bit_matrix_of.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

// Columns of packed low-bit matrices: embeddings, which a product may read, too.
namespace ctxgen::onednn {

namespace {

Result<kernels::LowBitMatrix> describe_table(const ProgramOp& op) {
  return low_bit_matrix(op, CTXGEN_TRY(decode<LowBitLookupParams>(op)));
}

Status check_low_bit_lookup_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0], {DataType::kUint8}));
  CTXGEN_CHECK(expect_type(program, op, op.inputs[1], {DataType::kInt32, DataType::kInt64}));
  if (op.inputs[0].kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: the matrix is not a weight", label(op));
  return expect_type(program, op, Operand::value(op.outputs[0]), {DataType::kFloat});
}

Result<ShapeOutputs> low_bit_lookup_shape(const ProgramOp& op, ShapeInputs in) {
  const kernels::LowBitMatrix matrix = CTXGEN_TRY(describe_table(op));
  CTXGEN_CHECK(expect_packed(op, matrix, in[0].dims));
  if (in[1].dims.size() >= kMaxRank)
    return fail(ErrorCode::kInvalidGraph, "{}: indices {}", label(op), to_string(in[1].dims));
  Dims out = in[1].dims;
  out.push_back(matrix.k);
  return one_shape(out);
}

Status place_low_bit_lookup(Placement& pass, std::uint32_t op) {
  const ProgramOp& lookup = pass.program().ops[op];
  const auto plain = [&](std::size_t i) {
    return pass.need(lookup.inputs[i], Layout::kPlain, Placement::Density::kDense, op);
  };
  const SlotId matrix = plain(0), indices = plain(1);
  pass.add_placed(op, Layout::kPlain, {matrix, indices});
  return {};
}

/// Args: matrix, indices, dst. Index: std::int32_t or std::int64_t.
template <class Index>
class LowBitLookupKernel final : public Kernel {
 public:
  LowBitLookupKernel(std::string name, std::int64_t count, const kernels::LowBitMatrix& matrix)
      : name_(std::move(name)), count_(count), matrix_(matrix) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* indices = reinterpret_cast<const Index*>(args[1]);
    const std::int64_t n = matrix_.n;
    std::atomic<std::int64_t> outside{count_};  // the first such place in `indices`
    parallel_for(workers, count_, work_of(count_, matrix_.k), [&](std::int64_t i) {
      const std::int64_t index = std::int64_t{indices[i]};
      if (index < -n || index >= n) {
        for (std::int64_t first = outside; i < first && !outside.compare_exchange_weak(first, i);) {
        }
        return;
      }
      kernels::unpack_column(matrix_, args[0], index < 0 ? index + n : index,
                             reinterpret_cast<float*>(args[2]) + i * matrix_.k);
    });
    if (outside == count_) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: index {} is outside of [{}, {}]", name_,
                std::int64_t{indices[outside]}, -n, n - 1);
  }

 private:
  std::string name_;
  std::int64_t count_;
  kernels::LowBitMatrix matrix_;
};

Status build_low_bit_lookup(NodeBuilder& builder) {
  const kernels::LowBitMatrix matrix = CTXGEN_TRY(describe_table(builder.op()));
  const Slot& indices = builder.input(1);
  const auto make = [&]<class Index>(Index) -> std::shared_ptr<const Kernel> {
    return std::make_shared<const LowBitLookupKernel<Index>>(label(builder.op()),
                                                             volume(indices.dims), matrix);
  };
  builder.add_kernel("loop:low_bit_lookup",
                     indices.type == DataType::kInt32 ? make(std::int32_t{}) : make(std::int64_t{}),
                     {builder.slot_arg(builder.input(0)), builder.slot_arg(indices),
                      builder.slot_arg(builder.output())});
  return {};
}

}  // namespace

constinit const KindRow kLowBitLookupRow{
    .name = kind::kLowBitLookup,
    .number = 42,
    .inputs = {2, 2},
    .traits = {.post_ops = false},
    .types = check_low_bit_lookup_types,
    .shape = low_bit_lookup_shape,
    .place = place_low_bit_lookup,
    .build = build_low_bit_lookup,
};

}  // namespace ctxgen::onednn
