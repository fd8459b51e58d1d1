#include "rules/op_precision.h"

#include <format>
#include <optional>
#include <string>
#include <utility>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/onednn/kind_params.h"
#include "ctxgen/onednn/kind_traits.h"
#include "ctxgen/onednn/op_kinds.h"

#include "layout/layout.h"

namespace ctxgen::onednn {
namespace {

std::string_view short_name(DataType type) { return type == DataType::kBfloat16 ? "bf16" : "f16"; }

/// Of the constant that decides how an op computes; null where there is none.
const ProgramWeight* constant_of(const Program& program, const ProgramOp& op) {
  const bool looks_up = op.kind == kind::kLookup || op.kind == kind::kLowBitLookup;
  const std::size_t place = looks_up ? 0 : 1;
  if (!looks_up && op.kind != kind::kLowBitMatmul && !traits_of(op).product) return nullptr;
  if (op.inputs.size() <= place || op.inputs[place].kind != Operand::Kind::kWeight) return nullptr;
  return &program.weights[op.inputs[place].index];
}

std::string precision_of(const Program& program, const ProgramOp& op, const ProgramWeight& weight) {
  if (op.kind == kind::kLowBitMatmul)
    if (const auto params = decode<LowBitMatmulParams>(op))
      return std::format("weights=s{}:{}", params->bits, params->block);
  switch (weight.type) {
    case DataType::kFloat: return "f32";
    case DataType::kBfloat16:
    case DataType::kFloat16: break;
    default: return "int8";
  }
  const Operand& source = op.inputs[0];
  const bool multiplies =
      source.kind == Operand::Kind::kValue && program.values[source.index].type == weight.type;
  return std::format("{}={}", multiplies ? "precision" : "weights", short_name(weight.type));
}

/// Cheapest first. A compile looks closer: what an op cannot be it does not become.
std::vector<std::string> others_of(const ProgramOp& op, const ProgramWeight& weight) {
  const InstructionSet usable = usable_instruction_set();
  std::vector<std::string> others;
  const bool matrix = op.kind == kind::kMatmul && weight.dims.size() == 2;
  if (matrix) others = {"weights=s4:32", "weights=s8:32"};
  if (!matrix && op.kind != kind::kConv && op.kind != kind::kLookup) return others;
  if (op.kind != kind::kLookup && includes(usable, InstructionSet::kAvx512CoreBf16))
    others.emplace_back("precision=bf16");
  if (includes(usable, InstructionSet::kAvx2)) {
    others.emplace_back("weights=f16");
    others.emplace_back("weights=bf16");
  }
  return others;
}

}  // namespace

std::vector<OpPrecision> precisions_of(const Program& program) {
  std::vector<OpPrecision> all;
  for (const ProgramOp& op : program.ops) {
    const ProgramWeight* weight = constant_of(program, op);
    if (weight == nullptr) continue;
    OpPrecision one{.op = weight->name, .precision = precision_of(program, op, *weight)};
    one.elements = checked_size_bytes(weight->type, weight->dims).value_or(0);
    if (const std::size_t bytes = element_bytes(weight->type); bytes > 0) one.elements /= bytes;
    if (one.precision == "f32") one.others = others_of(op, *weight);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace ctxgen::onednn
