#include <atomic>
#include <cstring>

#include "ctxgen/onednn/op_kinds.h"

#include "kernels/kernel_loops.h"
#include "kernels/kernels.h"
#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/builder_fused.h"
#include "plan/params.h"
#include "rules/shape_rules.h"
#include "rules/type_rules.h"

namespace ctxgen::onednn {

namespace {

/// Slices are moved as bytes, or widened from bf16 and f16 to f32.
Status check_lookup_types(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0],
                           {DataType::kFloat, DataType::kBfloat16, DataType::kFloat16,
                            DataType::kUint8, DataType::kInt8}));
  CTXGEN_CHECK(expect_type(program, op, op.inputs[1], {DataType::kInt32, DataType::kInt64}));
  if (op.inputs[0].kind != Operand::Kind::kWeight)
    return fail(ErrorCode::kUnsupported, "{}: the table is not a weight", label(op));
  const DataType table = operand_type(program, op.inputs[0]);
  const Operand result = Operand::value(op.outputs[0]);
  if (table == DataType::kBfloat16 || table == DataType::kFloat16)
    return expect_type(program, op, result, {DataType::kFloat, table});
  return expect_type(program, op, result, {table});
}

Result<ShapeOutputs> lookup_shape(const ProgramOp& op, ShapeInputs in) {
  const Dims& table = in[0].dims;
  if (table.empty() || table[0] < 1 || table.size() - 1 + in[1].dims.size() > kMaxRank)
    return fail(ErrorCode::kInvalidGraph, "{}: table {}, indices {}", label(op), to_string(table),
                to_string(in[1].dims));
  Dims out = in[1].dims;
  for (const std::int64_t dim : table.span().subspan(1)) out.push_back(dim);
  return one_shape(out);
}

Status place_lookup(Placement& pass, std::uint32_t op) {
  const ProgramOp& lookup = pass.program().ops[op];
  const auto plain = [&](std::size_t i) {
    return pass.need(lookup.inputs[i], Layout::kPlain, Placement::Density::kDense, op);
  };
  const SlotId table = plain(0), indices = plain(1);
  pass.add_placed(op, Layout::kPlain, {table, indices});
  return {};
}

struct Slices {
  std::int64_t elements = 0;  // of a slice
  DataType stored = DataType::kFloat, result = DataType::kFloat;
};

/// Args: table, indices, dst. Index: std::int32_t or std::int64_t.
template <class Index>
class LookupKernel final : public Kernel {
 public:
  LookupKernel(std::string name, std::int64_t count, std::int64_t length, const Slices& slices)
      : name_(std::move(name)),
        count_(count),
        length_(length),
        slices_(slices),
        stored_bytes_(slices.elements * static_cast<std::int64_t>(element_bytes(slices.stored))),
        slice_bytes_(slices.elements * static_cast<std::int64_t>(element_bytes(slices.result))) {}

  Status run(std::byte* const* args, Workers& workers) const override {
    const auto* indices = reinterpret_cast<const Index*>(args[1]);
    std::atomic<std::int64_t> outside{count_};  // a place in `indices`
    parallel_for(workers, count_, work_of(count_, slice_bytes_ / kFloatBytes), [&](std::int64_t i) {
      const std::int64_t index = std::int64_t{indices[i]};
      if (index < -length_ || index >= length_) {
        outside = i;
        return;
      }
      std::byte* to = args[2] + i * slice_bytes_;
      const std::byte* from = args[0] + (index < 0 ? index + length_ : index) * stored_bytes_;
      if (slices_.stored == slices_.result)
        std::memcpy(to, from, static_cast<std::size_t>(slice_bytes_));
      else
        load_row({slices_.stored, 1, 0}, slices_.elements, from, 1, reinterpret_cast<float*>(to));
    });
    if (outside == count_) return {};
    return fail(ErrorCode::kInvalidArgument, "{}: index {} is outside of [{}, {}]", name_,
                std::int64_t{indices[outside]}, -length_, length_ - 1);
  }

 private:
  static constexpr std::int64_t kFloatBytes = sizeof(float);

  std::string name_;
  std::int64_t count_, length_;
  Slices slices_;
  std::int64_t stored_bytes_, slice_bytes_;
};

Status build_lookup(NodeBuilder& builder) {
  const Slot& table = builder.input(0);
  const Slot& indices = builder.input(1);
  const auto make = [&]<class Index>(Index) {
    return std::make_shared<const LookupKernel<Index>>(
        label(builder.op()), volume(indices.dims), table.dims[0],
        Slices{volume(table.dims, 1), table.type, builder.output().type});
  };
  std::shared_ptr<const Kernel> kernel;
  if (indices.type == DataType::kInt32)
    kernel = make(std::int32_t{});
  else
    kernel = make(std::int64_t{});
  builder.add_kernel(
      "loop:lookup", std::move(kernel),
      {builder.slot_arg(table), builder.slot_arg(indices), builder.slot_arg(builder.output())});
  return {};
}

}  // namespace

constinit const KindRow kLookupRow{
    .name = kind::kLookup,
    .number = 35,
    .inputs = {2, 2},
    .traits = {.post_ops = false, .exact = true},
    .types = check_lookup_types,
    .shape = lookup_shape,
    .place = place_lookup,
    .build = build_lookup,
};

}  // namespace ctxgen::onednn
