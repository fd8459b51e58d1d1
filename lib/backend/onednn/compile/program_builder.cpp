#include "program_builder.h"

#include <utility>

#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/op_kinds.h"

#include "quantized_constant.h"

namespace ctxgen::onednn {

ProgramBuilder::ProgramBuilder(const GraphView& view, SpillFile* spill) : view_(&view) {
  lowered_.spill = spill;
  lowered_.program.source = std::string(kSource);
}

ProgramDim ProgramBuilder::dim(const Dim& dim) {
  if (dim.is_fixed()) return {.value = dim.value()};
  if (!dim.is_symbol()) return {};
  const auto [found, added] = symbols_.try_emplace(
      dim.symbol(), static_cast<std::int32_t>(lowered_.program.symbols.size()));
  if (added) lowered_.program.symbols.push_back(view_->model().symbol_name(dim.symbol()));
  return {.symbol = found->second};
}

std::vector<ProgramDim> ProgramBuilder::dims(std::span<const Dim> dims) {
  std::vector<ProgramDim> result;
  for (const Dim& d : dims) result.push_back(dim(d));
  return result;
}

std::uint32_t ProgramBuilder::value(ValueId id) {
  const auto found = values_.find(id);
  if (found != values_.end()) return found->second;
  const Value& value = view_->graph().value(id);
  // float16 and bfloat16 are what values cross the boundary in; inside, everything is computed in float32.
  const bool half = is_half(value.type.element);
  ProgramValue made{.name = value.name,
                    .type = half ? DataType::kFloat : value.type.element,
                    .dims = {},
                    .has_rank = false};
  if (value.type.has_rank()) {
    made.dims = dims(*value.type.shape);
    made.has_rank = true;
  }
  const auto index = static_cast<std::uint32_t>(lowered_.program.values.size());
  lowered_.program.values.push_back(std::move(made));
  values_.emplace(id, index);
  return index;
}

std::uint32_t ProgramBuilder::temporary(std::string_view name, std::vector<ProgramDim> dims,
                                        DataType type) {
  const auto index = static_cast<std::uint32_t>(lowered_.program.values.size());
  lowered_.program.values.push_back(
      {.name = std::string(name), .type = type, .dims = std::move(dims)});
  return index;
}

Operand ProgramBuilder::operand(ValueId id) {
  if (!id.valid()) return {};
  const Tensor* constant = view_->constant(id);
  if (constant == nullptr) return Operand::value(value(id));
  const auto found = weights_.find(id);
  if (found != weights_.end()) return Operand::weight(found->second);
  const Operand made = weight(view_->graph().value(id).name, *constant);
  if (auto quantized = quantized_constant(*view_, id)) note_quantized(made, std::move(*quantized));
  weights_.emplace(id, made.index);
  return made;
}

Operand ProgramBuilder::weight(std::string_view name, const Tensor& tensor) {
  Result<Tensor> made =
      is_half(tensor.type()) ? tensor_of(tensor.dims(), floats_of(tensor)) : Result<Tensor>(tensor);
  if (made) made = keep_in(lowered_.spill, std::move(*made));
  if (!made && status_) status_ = std::unexpected(made.error());
  const Operand stored = stored_weight(name, made ? *made : tensor);
  if (is_half(tensor.type())) lowered_.source_types.emplace(stored.index, tensor.type());
  return stored;
}

Operand ProgramBuilder::stored_weight(std::string_view name, Tensor tensor) {
  const auto index = static_cast<std::uint32_t>(lowered_.weights.size());
  lowered_.program.weights.push_back(
      {.name = std::string(name), .type = tensor.type(), .dims = tensor.dims(), .packed = {}});
  lowered_.weights.push_back(std::move(tensor));
  return Operand::weight(index);
}

void ProgramBuilder::note_quantized(Operand weight, QuantizedWeight quantized) {
  lowered_.quantized.emplace(weight.index, std::move(quantized));
}

/// The value of the interface, of a type of 16 bits, that stands for `inner`.
std::uint32_t ProgramBuilder::half_of(std::uint32_t inner, DataType type) {
  ProgramValue outer = at(inner);
  outer.type = type;
  const auto index = static_cast<std::uint32_t>(lowered_.program.values.size());
  lowered_.program.values.push_back(std::move(outer));
  return index;
}

void ProgramBuilder::convert(std::uint32_t from, std::uint32_t to) {
  ProgramOp op;
  op.kind = kind::kPoint;
  op.name = at(to).name;
  add(std::move(op), {Operand::value(from)}, to);
}

void ProgramBuilder::add_input(ValueId id) {
  const std::uint32_t inner = value(id);
  const DataType type = view_->graph().value(id).type.element;
  if (!is_half(type)) {
    lowered_.program.inputs.push_back(inner);
    return;
  }
  const std::uint32_t outer = half_of(inner, type);
  lowered_.program.inputs.push_back(outer);
  convert(outer, inner);
}

void ProgramBuilder::add_output(ValueId id) {
  const std::uint32_t inner = value(id);
  const DataType type = view_->graph().value(id).type.element;
  if (!is_half(type)) {
    lowered_.program.outputs.push_back(inner);
    return;
  }
  const std::uint32_t outer = half_of(inner, type);
  lowered_.program.outputs.push_back(outer);
  narrowed_.emplace_back(inner, outer);
}

Result<Lowered> ProgramBuilder::finish() && {
  CTXGEN_CHECK(std::move(status_));
  for (const auto& [inner, outer] : narrowed_) convert(inner, outer);
  return std::move(lowered_);
}

std::vector<ProgramDim> ProgramBuilder::broadcast(Operand a, Operand b) const {
  return broadcast_dims(dims_of(lowered_.program, a), dims_of(lowered_.program, b));
}

ProgramOp ProgramBuilder::op(std::string_view kind, const NodeView& n) const {
  ProgramOp op;
  op.kind = kind;
  op.name = n.node().name;
  if (op.name.empty() && n.output(0).valid()) op.name = n.output_value(0).name;
  return op;
}

void ProgramBuilder::add(ProgramOp op, SmallList<Operand> inputs,
                         SmallList<std::uint32_t> outputs) {
  while (!inputs.empty() && inputs.back().kind == Operand::Kind::kNone) inputs.pop_back();
  op.inputs = std::move(inputs);
  op.outputs = std::move(outputs);
  lowered_.program.ops.push_back(std::move(op));
}

void ProgramBuilder::add(ProgramOp op, SmallList<Operand> inputs, std::uint32_t output) {
  add(std::move(op), std::move(inputs), SmallList<std::uint32_t>{output});
}

void ProgramBuilder::add_eltwise(const NodeView& n, std::string_view alg, float alpha, float beta,
                                 Operand input, std::uint32_t output) {
  ProgramOp made = op(kind::kEltwise, n);
  set_eltwise(made, alg, alpha, beta);
  add(std::move(made), {input}, output);
}

void ProgramBuilder::add_binary(const NodeView& n, std::string_view alg, Operand a, Operand b,
                                std::uint32_t output) {
  ProgramOp made = op(kind::kBinary, n);
  encode(BinaryParams{.alg = std::string(alg)}, made);
  add(std::move(made), {a, b}, output);
}

void set_eltwise(ProgramOp& op, std::string_view alg, float alpha, float beta) {
  op.params.reserve(3);
  encode(EltwiseParams{.alg = std::string(alg), .alpha = double{alpha}, .beta = double{beta}}, op);
}

}  // namespace ctxgen::onednn
