#include "kinds/types.h"

#include <algorithm>
#include <initializer_list>

#include "ctxgen/onednn/op_kinds.h"
#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

using Types = std::initializer_list<DataType>;

constexpr Types kFloatOnly = {DataType::kFloat};
constexpr Types kCondition = {DataType::kBool};
constexpr Types kBytes = {DataType::kUint8, DataType::kInt8};
constexpr Types kNumbers = {DataType::kFloat, DataType::kFloat16, DataType::kUint8,
                            DataType::kInt8, DataType::kInt32};
constexpr Types kMovable = {DataType::kFloat, DataType::kFloat16, DataType::kUint8,
                            DataType::kInt8,  DataType::kInt32,   DataType::kBool};
constexpr Types kPooled = {DataType::kFloat, DataType::kUint8, DataType::kInt8};
constexpr Types kStored = {DataType::kFloat, DataType::kFloat16, DataType::kUint8,
                           DataType::kInt8};

DataType type_of(const Program& program, const Operand& operand) {
  return operand.kind == Operand::Kind::kWeight ? program.weights[operand.index].type
                                                : program.values[operand.index].type;
}

Status expect(const Program& program, const ProgramOp& op, const Operand& operand, Types types) {
  if (operand.kind == Operand::Kind::kNone) return {};
  const DataType type = type_of(program, operand);
  if (std::ranges::find(types, type) != types.end()) return {};
  std::string expected;
  for (const DataType one : types)
    expected += std::string(expected.empty() ? "" : ", ") + std::string(name_of(one));
  return fail(ErrorCode::kUnsupported, "{}: type {}, expected {}", label(op), name_of(type),
              expected);
}

Status check_f32_op(const Program& program, const ProgramOp& op) {
  for (const Operand& operand : op.inputs)
    CTXGEN_CHECK(expect(program, op, operand, kFloatOnly));
  for (const std::uint32_t value : op.outputs)
    CTXGEN_CHECK(expect(program, op, Operand::value(value), kFloatOnly));
  return {};
}

/// All inputs and outputs of one type out of `types`.
Status check_uniform(const Program& program, const ProgramOp& op, Types types) {
  if (op.inputs.empty() || op.inputs[0].kind == Operand::Kind::kNone)
    return fail(ErrorCode::kUnsupported, "{}: first input is absent", label(op));
  CTXGEN_CHECK(expect(program, op, op.inputs[0], types));
  const DataType type = type_of(program, op.inputs[0]);
  // Further inputs of the others are read for their sizes only.
  if (op.kind == kind::kConcat)
    for (const Operand& operand : op.inputs) CTXGEN_CHECK(expect(program, op, operand, {type}));
  for (const std::uint32_t value : op.outputs)
    CTXGEN_CHECK(expect(program, op, Operand::value(value), {type}));
  if (type != DataType::kFloat && !op.post_ops.empty())
    return fail(ErrorCode::kUnsupported, "{}: post-ops over {}", label(op), name_of(type));
  return {};
}

Status check_product(const Program& program, const ProgramOp& op) {
  const auto input = [&](std::size_t i) { return i < op.inputs.size() ? op.inputs[i] : Operand{}; };
  CTXGEN_CHECK(expect(program, op, input(0), kBytes));
  CTXGEN_CHECK(expect(program, op, input(1), {DataType::kInt8}));
  CTXGEN_CHECK(expect(program, op, input(2), kFloatOnly));
  CTXGEN_CHECK(expect(program, op, input(3), kFloatOnly));
  const Operand result = Operand::value(op.outputs[0]);
  CTXGEN_CHECK(expect(program, op, result,
                      {DataType::kFloat, DataType::kUint8, DataType::kInt8, DataType::kInt32}));
  const bool bare = op.inputs.size() <= 2 && op.post_ops.empty();
  if (type_of(program, result) == DataType::kInt32 && !bare)
    return fail(ErrorCode::kUnsupported, "{}: an int32 result takes no bias, scales or post-ops",
                label(op));
  return {};
}

Status check_point(const Program& program, const ProgramOp& op) {
  CTXGEN_CHECK(expect(program, op, op.inputs[0], kNumbers));
  return expect(program, op, Operand::value(op.outputs[0]), kStored);
}

Status check_select(const Program& program, const ProgramOp& op) {
  for (std::size_t i = 0; i < op.inputs.size(); ++i)
    CTXGEN_CHECK(expect(program, op, op.inputs[i], i == 0 ? kCondition : kFloatOnly));
  return expect(program, op, Operand::value(op.outputs[0]), kFloatOnly);
}

struct TypeRow {
  std::string_view kind;
  Types types;  // of check_uniform
};
constexpr TypeRow kUniform[] = {
    {kind::kConcat, kMovable},    {kind::kTranspose, kMovable}, {kind::kReshape, kMovable},
    {kind::kFlatten, kMovable},   {kind::kSqueeze, kMovable},   {kind::kUnsqueeze, kMovable},
    {kind::kIdentity, kMovable},  {kind::kSlice, kMovable},     {kind::kSplit, kMovable},
    {kind::kExpand, kMovable},    {kind::kPool, kPooled},       {kind::kGlobalPool, kPooled},
};

Status check_op(const Program& program, const ProgramOp& op) {
  if (op.kind == kind::kPoint) return check_point(program, op);
  if (op.kind == kind::kSelect) return check_select(program, op);
  if (op.kind == kind::kQConv || op.kind == kind::kQMatmul) return check_product(program, op);
  for (const TypeRow& row : kUniform)
    if (row.kind == op.kind) return check_uniform(program, op, row.types);
  return check_f32_op(program, op);
}

}  // namespace

Status check_types(const Program& program) {
  for (const ProgramValue& value : program.values)
    if (std::ranges::find(kMovable, value.type) == kMovable.end())
      return fail(ErrorCode::kUnsupported, "value \"{}\": type {}", value.name,
                  name_of(value.type));
  for (const ProgramWeight& weight : program.weights)
    if (std::ranges::find(kMovable, weight.type) == kMovable.end())
      return fail(ErrorCode::kUnsupported, "weight \"{}\": type {}", weight.name,
                  name_of(weight.type));
  for (const ProgramOp& op : program.ops) {
    CTXGEN_CHECK(check_op(program, op));
    // A point op reads operands of any stored type; all others have f32 kernels only.
    const Types operands = op.kind == kind::kPoint ? kStored : kFloatOnly;
    for (const PostOp& post : op.post_ops)
      CTXGEN_CHECK(expect(program, op, post.operand, operands));
  }
  return {};
}

}  // namespace ctxgen::onednn
