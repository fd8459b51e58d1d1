#include "lowered.h"

#include <algorithm>
#include <string>
#include <utility>

namespace ctxgen::onednn {

const DnnlOptions& options_of(const Lowered& lowered, const ProgramOp& op) {
  for (const Operand& operand : op.inputs) {
    if (lowered.choices.empty()) break;
    if (operand.kind != Operand::Kind::kWeight) continue;
    const auto own = lowered.choices.find(lowered.program.weights[operand.index].name);
    if (own != lowered.choices.end()) return own->second;
  }
  return lowered.options;
}

std::vector<ProgramDim> dims_of(const Program& program, Operand operand) {
  if (operand.kind == Operand::Kind::kValue) return program.values[operand.index].dims;
  std::vector<ProgramDim> dims;
  for (const std::int64_t dim : program.weights[operand.index].dims) dims.push_back({.value = dim});
  return dims;
}

std::vector<ProgramDim> broadcast_dims(std::vector<ProgramDim> a, std::vector<ProgramDim> b) {
  if (a.size() < b.size()) std::swap(a, b);
  const std::size_t offset = a.size() - b.size();
  for (std::size_t i = 0; i < b.size(); ++i) {
    ProgramDim& dim = a[offset + i];
    const ProgramDim& other = b[i];
    if (other.value == 1 || surely_equal(dim, other)) continue;
    if (dim.value == 1 || other.value > 1) {
      dim = other;
    } else if (dim.value < 1) {
      dim = {};
    }
  }
  return a;
}

bool surely_equal(const ProgramDim& a, const ProgramDim& b) {
  return a == b && (a.value >= 0 || a.symbol >= 0);
}

bool surely_equal(const std::vector<ProgramDim>& a, const std::vector<ProgramDim>& b) {
  return a.size() == b.size() &&
         std::ranges::equal(
             a, b, [](const ProgramDim& x, const ProgramDim& y) { return surely_equal(x, y); });
}

PostOp eltwise_step(std::string_view alg, float alpha, float beta) {
  return {.kind = alg, .alpha = alpha, .beta = beta, .operand = {}};
}

float float_param(const ProgramOp& op, std::string_view name, float otherwise) {
  const ProgramParam* param = find_param(op, name);
  const auto* value = param != nullptr ? std::get_if<double>(&param->value) : nullptr;
  return value != nullptr ? static_cast<float>(*value) : otherwise;
}

std::string_view text_param(const ProgramOp& op, std::string_view name) {
  const ProgramParam* param = find_param(op, name);
  const auto* value = param != nullptr ? std::get_if<ShortText>(&param->value) : nullptr;
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

}  // namespace ctxgen::onednn
