#include "rules/type_rules.h"

#include <algorithm>

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

constexpr Types kFloatOnly = {DataType::kFloat};
constexpr Types kBytes = {DataType::kUint8, DataType::kInt8};
constexpr Types kMovable = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                            DataType::kUint8, DataType::kInt8,    DataType::kInt32,
                            DataType::kBool};
constexpr Types kValues = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                           DataType::kUint8, DataType::kInt8,    DataType::kInt32,
                           DataType::kInt64, DataType::kBool};
constexpr Types kPooled = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16,
                           DataType::kUint8, DataType::kInt8};

/// All inputs and outputs of one type out of `types`.
Status check_uniform(const Program& program, const ProgramOp& op, Types types) {
  if (op.inputs.empty() || op.inputs[0].kind == Operand::Kind::kNone)
    return fail(ErrorCode::kUnsupported, "{}: first input is absent", label(op));
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0], types));
  const DataType type = operand_type(program, op.inputs[0]);
  for (const std::uint32_t value : op.outputs)
    CTXGEN_CHECK(expect_type(program, op, Operand::value(value), {type}));
  if (type != DataType::kFloat && !op.post_ops.empty())
    return fail(ErrorCode::kUnsupported, "{}: post-ops over {}", label(op), name_of(type));
  return {};
}

}  // namespace

DataType operand_type(const Program& program, const Operand& operand) {
  return operand.kind == Operand::Kind::kWeight ? program.weights[operand.index].type
                                                : program.values[operand.index].type;
}

Status expect_type(const Program& program, const ProgramOp& op, const Operand& operand,
                   Types types) {
  if (operand.kind == Operand::Kind::kNone) return {};
  const DataType type = operand_type(program, operand);
  if (std::ranges::find(types, type) != types.end()) return {};
  std::string expected;
  for (const DataType one : types)
    expected += std::string(expected.empty() ? "" : ", ") + std::string(name_of(one));
  return fail(ErrorCode::kUnsupported, "{}: type {}, expected {}", label(op), name_of(type),
              expected);
}

Status check_f32_types(const Program& program, const ProgramOp& op) {
  for (const Operand& operand : op.inputs)
    CTXGEN_CHECK(expect_type(program, op, operand, kFloatOnly));
  for (const std::uint32_t value : op.outputs)
    CTXGEN_CHECK(expect_type(program, op, Operand::value(value), kFloatOnly));
  return {};
}

Status check_float_product_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect_type(program, op, input(0), kFloatTypes));
  CTXGEN_CHECK(expect_type(program, op, input(2), kFloatOnly));
  const DataType source = operand_type(program, op.inputs[0]);
  const Operand result = Operand::value(op.outputs[0]);
  if (source == DataType::kFloat) {
    const bool constant = input(1).kind == Operand::Kind::kWeight;
    CTXGEN_CHECK(expect_type(program, op, input(1), constant ? kFloatTypes : kFloatOnly));
    return expect_type(program, op, result, kFloatOnly);
  }
  CTXGEN_CHECK(expect_type(program, op, input(1), {source}));
  return expect_type(program, op, result, {DataType::kFloat, source});
}

Status check_scaled_types(const Program& program, const ProgramOp& op) {
  for (std::size_t i = 1; i < op.inputs.size(); ++i)
    CTXGEN_CHECK(expect_type(program, op, op.inputs[i], kFloatOnly));
  CTXGEN_CHECK(expect_type(program, op, op.inputs[0], kFloatTypes));
  return expect_type(program, op, Operand::value(op.outputs[0]), kFloatTypes);
}

Status check_movable_types(const Program& program, const ProgramOp& op) {
  return check_uniform(program, op, kMovable);
}

Status check_pool_types(const Program& program, const ProgramOp& op) {
  return check_uniform(program, op, kPooled);
}

Status check_product_types(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect_type(program, op, input(0), kBytes));
  CTXGEN_CHECK(expect_type(program, op, input(1), {DataType::kInt8}));
  CTXGEN_CHECK(expect_type(program, op, input(2), kFloatOnly));
  CTXGEN_CHECK(expect_type(program, op, input(3), kFloatOnly));
  const Operand result = Operand::value(op.outputs[0]);
  CTXGEN_CHECK(
      expect_type(program, op, result,
                  {DataType::kFloat, DataType::kUint8, DataType::kInt8, DataType::kInt32}));
  const bool bare = op.inputs.size() <= 2 && op.post_ops.empty();
  if (operand_type(program, result) == DataType::kInt32 && !bare)
    return fail(ErrorCode::kUnsupported, "{}: an int32 result takes no bias, scales or post-ops",
                label(op));
  return {};
}

Status check_types(const Program& program) {
  for (const ProgramValue& value : program.values)
    if (std::ranges::find(kValues, value.type) == kValues.end())
      return fail(ErrorCode::kUnsupported, "value \"{}\": type {}", value.name,
                  name_of(value.type));
  for (const ProgramWeight& weight : program.weights)
    if (std::ranges::find(kMovable, weight.type) == kMovable.end() &&
        weight.type != DataType::kBfloat16)
      return fail(ErrorCode::kUnsupported, "weight \"{}\": type {}", weight.name,
                  name_of(weight.type));
  for (const ProgramOp& op : program.ops) {
    const KindRow* row = find_kind(op.kind);
    if (row == nullptr) return fail(ErrorCode::kUnsupported, "{}: unknown kind", label(op));
    CTXGEN_CHECK(row->types(program, op));
    const bool narrow = row->traits.product && !row->traits.quantised;
    const Types operands = row->traits.typed_operands ? kStoredTypes
                           : narrow                   ? kFloatTypes
                                                      : kFloatOnly;
    for (const PostOp& post : op.post_ops)
      CTXGEN_CHECK(expect_type(program, op, post.operand, operands));
  }
  return {};
}

}  // namespace ctxgen::onednn
