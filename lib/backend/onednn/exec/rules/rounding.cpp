#include "rules/rounding.h"

#include <algorithm>

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

std::int64_t terms_of(const Program& program, const ProgramOp& op) {
  const KindRow* row = find_kind(op.kind);
  if (row == nullptr) return 1;
  if (row->traits.exact) return 0;
  return row->terms == nullptr ? 1 : row->terms(program, op);
}

}  // namespace

std::int64_t dim_from_back(const Program& program, const ProgramOp& op, std::size_t input,
                           std::size_t back) {
  if (input >= op.inputs.size()) return kUnknownTerms;
  const Operand& operand = op.inputs[input];
  std::int64_t dim = -1;
  if (operand.kind == Operand::Kind::kWeight) {
    const Dims& dims = program.weights[operand.index].dims;
    if (back < dims.size()) dim = dims[dims.size() - 1 - back];
  } else if (operand.kind == Operand::Kind::kValue) {
    const auto& dims = program.values[operand.index].dims;
    if (back < dims.size()) dim = dims[dims.size() - 1 - back].value;
  }
  return dim < 0 ? kUnknownTerms : std::min(dim, kMostTerms);
}

std::int64_t conv_terms(const Program& program, const ProgramOp& op) {
  if (op.inputs.size() < 2 || op.inputs[1].kind == Operand::Kind::kNone) return kUnknownTerms;
  const Operand& weights = op.inputs[1];
  const std::size_t rank = weights.kind == Operand::Kind::kWeight
                               ? program.weights[weights.index].dims.size()
                               : program.values[weights.index].dims.size();
  std::int64_t taps = 1;
  for (std::size_t back = 0; back + 1 < rank; ++back) {
    const std::int64_t dim = dim_from_back(program, op, 1, back);
    if (dim == kUnknownTerms) return dim;
    if (__builtin_mul_overflow(taps, dim, &taps)) return kMostTerms;
  }
  return rank < 2 ? kUnknownTerms : std::min(taps, kMostTerms);
}

OpRounding rounding_of(const Program& program, const ProgramOp& op) {
  OpRounding rounding;
  rounding.roundings = static_cast<std::int64_t>(op.post_ops.size()) + terms_of(program, op);
  if (op.outputs.empty()) return rounding;
  const DataType result = program.values[op.outputs[0]].type;
  const PointParams params = decode<PointParams>(op).value_or(PointParams());
  const KindRow* row = find_kind(op.kind);
  rounding.quantises = (is_byte(result) && params.out_scale.has_value()) ||
                       (row != nullptr && row->quantises != nullptr && row->quantises(op));
  if (traits_of(op).exact && !is_byte(result)) rounding.step = params.in_scale.value_or(0);
  return rounding;
}

}  // namespace ctxgen::onednn
