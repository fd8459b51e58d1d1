#include "plan/dim_params.h"

#include <algorithm>

#include "ctxgen/onednn/dim_code.h"

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

constexpr std::string_view kSized = "sized";

bool is_code(const ProgramParam& param) { return param.name.view().ends_with(kDimCodeSuffix); }

}  // namespace

Dims operand_dims(const Program& program, const Operand& operand,
                  std::span<const Dims> value_dims) {
  if (operand.kind == Operand::Kind::kValue) return value_dims[operand.index];
  if (operand.kind == Operand::Kind::kWeight) return program.weights[operand.index].dims;
  return {};
}

std::size_t sized_inputs(const ProgramOp& op) {
  std::int64_t sized = 0;
  ParamReader reader(op);
  reader(kSized, sized);
  if (!std::move(reader).status() || sized < 0) return 0;
  return std::min(static_cast<std::size_t>(sized), op.inputs.size());
}

bool has_dim_code(const ProgramOp& op) { return std::ranges::any_of(op.params, is_code); }

Result<ProgramOp> without_dim_code(const Program& program, const ProgramOp& op,
                                   std::span<const Dims> value_dims) {
  ProgramOp plain = op;
  if (!has_dim_code(op)) return plain;
  std::vector<Dims> dims;
  for (const Operand& operand : op.inputs)
    dims.push_back(operand_dims(program, operand, value_dims));
  for (ProgramParam& param : plain.params) {
    if (!is_code(param)) continue;
    IntList code;
    ParamReader reader(op);
    reader(param.name, code);
    CTXGEN_CHECK(std::move(reader).status());
    param.value = CTXGEN_TRY(run_dim_code(code, dims, label(op)));
    param.name = param.name.str().substr(0, param.name.size() - kDimCodeSuffix.size());
  }
  std::int64_t sized = 0;
  ParamReader reader(op);
  reader(kSized, sized);
  CTXGEN_CHECK(std::move(reader).status());
  if (sized < 0 || static_cast<std::uint64_t>(sized) >= op.inputs.size())
    return fail(ErrorCode::kCorruptContext, "{}: {} of {} inputs are for their dims", label(op),
                sized, op.inputs.size());
  plain.inputs.resize(op.inputs.size() - static_cast<std::size_t>(sized));
  std::erase_if(plain.params, [](const ProgramParam& param) { return param.name == kSized; });
  return plain;
}

Result<Program> without_dim_code(const Program& program, std::span<const Dims> value_dims) {
  Program plain = program;
  for (ProgramOp& op : plain.ops) op = CTXGEN_TRY(without_dim_code(program, op, value_dims));
  return plain;
}

}  // namespace ctxgen::onednn
