#include "plan/shapes.h"

#include <algorithm>

#include "ctxgen/onednn/exec.h"

#include "kinds/kind_rows.h"
#include "plan/dim_params.h"
#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

Status check_post_ops(const Program& program, const ProgramOp& op, const KindRow& row,
                      const ShapeOutputs& outputs, std::span<const Dims> values) {
  if (!op.post_ops.empty() && !row.traits.post_ops)
    return fail(ErrorCode::kCorruptContext, "{}: kind takes no post-ops", label(op));
  for (const PostOp& post : op.post_ops) {
    if (post.operand.kind == Operand::Kind::kNone) continue;
    const Dims operand = operand_dims(program, post.operand, values);
    const Dims joint = CTXGEN_TRY(broadcast_dims(op, outputs[0], operand));
    if (joint != outputs[0])
      return fail(ErrorCode::kInvalidGraph, "{}: post-op {} operand {} does not broadcast to {}",
                  label(op), post.kind, to_string(operand), to_string(outputs[0]));
  }
  return {};
}

Status check_size(const ProgramOp& op, const Dims& dims) {
  const auto bytes = checked_size_bytes(DataType::kFloat, dims);
  if (!bytes || *bytes > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "{}: output {} is too large", label(op),
                to_string(dims));
  return {};
}

Status infer_op(const Program& program, const ProgramOp& given, std::vector<Dims>& values) {
  const ProgramOp op = CTXGEN_TRY(without_dim_code(program, given, values));
  const KindRow* row = find_kind(op.kind);
  if (row == nullptr) return fail(ErrorCode::kUnsupported, "{}: unknown kind", label(op));
  if (op.inputs.size() < row->inputs.least || op.inputs.size() > row->inputs.most)
    return fail(ErrorCode::kCorruptContext, "{}: {} inputs, expected {} to {}", label(op),
                op.inputs.size(), row->inputs.least, row->inputs.most);
  std::vector<ShapeInput> inputs;
  for (const Operand& operand : op.inputs)
    inputs.push_back(
        {operand_dims(program, operand, values), operand.kind != Operand::Kind::kNone});
  // Of the fixed-arity kinds only bias, scale and shift may be absent.
  for (std::size_t i = 0; i < std::min(inputs.size(), row->inputs.least); ++i)
    if (!inputs[i].present)
      return fail(ErrorCode::kCorruptContext, "{}: input {} is absent", label(op), i);
  const ShapeOutputs outputs = CTXGEN_TRY(row->shape(op, inputs));
  if (outputs.size() != op.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, expected {}", label(op),
                op.outputs.size(), outputs.size());
  CTXGEN_CHECK(check_post_ops(program, op, *row, outputs, values));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CTXGEN_CHECK(check_size(op, outputs[i]));
    values[op.outputs[i]] = outputs[i];
  }
  return {};
}

}  // namespace

Status check_input(const Program& program, std::size_t input, const Dims& dims,
                   std::span<std::int64_t> symbols) {
  const ProgramValue& value = program.values[program.inputs[input]];
  const auto misfit = [&] {
    return fail(ErrorCode::kInvalidArgument, "input \"{}\": shape {} does not fit the program",
                value.name, to_string(dims));
  };
  const auto bytes = checked_size_bytes(DataType::kFloat, dims);
  if (!bytes || *bytes > kMaxTensorBytes)
    return fail(ErrorCode::kResourceLimit, "input \"{}\": {} is too large", value.name,
                to_string(dims));
  if (!value.has_rank) return {};
  if (value.dims.size() != dims.size()) return misfit();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const ProgramDim& dim = value.dims[i];
    if (dim.value >= 0 && dim.value != dims[i]) return misfit();
    if (dim.value >= 0 || dim.symbol < 0) continue;
    const auto symbol = static_cast<std::size_t>(dim.symbol);
    if (symbol >= symbols.size()) return misfit();
    if (symbols[symbol] >= 0 && symbols[symbol] != dims[i]) return misfit();
    symbols[symbol] = dims[i];
  }
  return {};
}

Dims matmul_operand_dims(Dims stored, bool transposed) {
  if (transposed) std::swap(stored[stored.size() - 1], stored[stored.size() - 2]);
  return stored;
}

Result<Dims> broadcast_dims(const ProgramOp& op, const Dims& a, const Dims& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Dims out(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t from_a = i + a.size() < rank ? 1 : a[i + a.size() - rank];
    const std::int64_t from_b = i + b.size() < rank ? 1 : b[i + b.size() - rank];
    if (from_a != from_b && from_a != 1 && from_b != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: {} and {} do not broadcast", label(op),
                  to_string(a), to_string(b));
    out[i] = from_a == 1 ? from_b : from_a;
  }
  return out;
}

Result<SliceRange> resolve_slice(const ProgramOp& op, const Dims& src) {
  auto [starts, ends, axes, steps] = CTXGEN_TRY(decode<SliceParams>(op));
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} starts, {} ends, {} axes, {} steps", label(op),
                starts.size(), ends.size(), axes.size(), steps.size());
  SliceRange range{std::vector<std::int64_t>(src.size(), 0),
                   std::vector<std::int64_t>(src.size(), 1), src};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t axis = CTXGEN_TRY(normal_axis(op, axes[i], src.size()));
    const std::int64_t dim = src[axis];
    if (steps[i] == 0) return fail(ErrorCode::kInvalidGraph, "{}: step 0", label(op));
    if (dim == 0) continue;  // nothing, whatever the direction
    // From a dim's length on only the direction matters: clamped there, the sums below stay in
    // range, and so do products with strides.
    const std::int64_t step = std::clamp(steps[i], -dim, dim);
    const auto place = [&](std::int64_t index, std::int64_t low, std::int64_t high) {
      if (index < 0) index = index < -dim ? -1 : index + dim;
      return std::clamp(index, low, high);
    };
    const std::int64_t first = place(starts[i], 0, step > 0 ? dim : dim - 1);
    const std::int64_t last = step > 0 ? place(ends[i], 0, dim) : place(ends[i], -1, dim - 1);
    const std::int64_t span = step > 0 ? last - first : first - last;
    const std::int64_t size = step > 0 ? step : -step;
    range.start[axis] = first;
    range.step[axis] = step;
    range.dims[axis] = span > 0 ? (span + size - 1) / size : 0;
  }
  return range;
}

Result<std::vector<std::int64_t>> resolve_split(const ProgramOp& op, std::int64_t length) {
  IntList sizes = CTXGEN_TRY(decode<SplitParams>(op)).sizes;
  const auto parts = static_cast<std::int64_t>(op.outputs.size());
  if (sizes.empty()) {
    // ONNX (num_outputs): equal parts, the last one smaller where the length does not divide.
    const std::int64_t part = (length + parts - 1) / parts;
    for (std::int64_t i = 0, left = length; i < parts; ++i, left -= part)
      sizes.push_back(std::clamp<std::int64_t>(left, 0, part));
  }
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > length - sum)
      return fail(ErrorCode::kInvalidGraph, "{}: sizes do not add up to {}", label(op), length);
    sum += size;
  }
  if (sum != length || sizes.size() != op.outputs.size())
    return fail(ErrorCode::kInvalidGraph, "{}: {} sizes add up to {}, expected {} and {}",
                label(op), sizes.size(), sum, parts, length);
  return sizes;
}

Result<std::vector<Dims>> infer_value_dims(const Program& program,
                                           std::span<const Dims> input_dims) {
  if (input_dims.size() != program.inputs.size())
    return fail(ErrorCode::kInvalidArgument, "program \"{}\": {} inputs, expected {}", program.name,
                input_dims.size(), program.inputs.size());
  std::vector<std::int64_t> symbols(program.symbols.size(), -1);
  std::vector<Dims> values(program.values.size());
  for (std::size_t i = 0; i < input_dims.size(); ++i) {
    CTXGEN_CHECK(check_input(program, i, input_dims[i], symbols));
    values[program.inputs[i]] = input_dims[i];
  }
  for (const ProgramOp& op : program.ops) CTXGEN_CHECK(infer_op(program, op, values));
  return values;
}

}  // namespace ctxgen::onednn
