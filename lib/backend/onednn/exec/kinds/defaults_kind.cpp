#include "ctxgen/onednn/op_kinds.h"

#include "kinds/kind_rows.h"
#include "layout/placement.h"
#include "plan/params.h"
#include "rules/type_rules.h"

// The end of a program with two ways to its outputs. Each way is planned and run as a program of its
// own (ctxgen/onednn/defaults.h), so this op is never placed.
namespace ctxgen::onednn {

namespace {

constexpr Types kTypes = {DataType::kFloat, DataType::kFloat16, DataType::kUint8, DataType::kInt8,
                          DataType::kInt32, DataType::kInt64,   DataType::kBool};

Status check_defaults_types(const Program& program, const ProgramOp& op) {
  if (op.inputs.size() != 2 * op.outputs.size())
    return fail(ErrorCode::kUnsupported, "{}: {} inputs for {} outputs", label(op),
                op.inputs.size(), op.outputs.size());
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand output = Operand::value(op.outputs[i % op.outputs.size()]);
    CTXGEN_CHECK(expect_type(program, op, output, kTypes));
    CTXGEN_CHECK(expect_type(program, op, op.inputs[i], {operand_type(program, output)}));
  }
  return {};
}

Result<ShapeOutputs> defaults_shape(const ProgramOp& op, ShapeInputs in) {
  ShapeOutputs outputs;
  const std::size_t count = in.size() / 2;
  for (std::size_t i = 0; i < count; ++i) {
    if (in[i].dims != in[i + count].dims)
      return fail(ErrorCode::kInvalidGraph, "{}: output {} is {} or {}", label(op), i,
                  to_string(in[i].dims), to_string(in[i + count].dims));
    outputs.push_back(in[i].dims);
  }
  return outputs;
}

Status place_defaults(Placement& pass, std::uint32_t op) {
  return fail(ErrorCode::kUnsupported, "{}: planned together with what it chooses from",
              label(pass.program().ops[op]));
}

}  // namespace

constinit const KindRow kDefaultsRow{
    .name = kind::kDefaults,
    .number = 38,
    .inputs = {2, kManyInputs},
    .traits = {.post_ops = false, .takes_empty = true, .exact = true},
    .types = check_defaults_types,
    .shape = defaults_shape,
    .place = place_defaults,
    .build = nullptr,
};

}  // namespace ctxgen::onednn
