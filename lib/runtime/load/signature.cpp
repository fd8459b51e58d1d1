#include "load/signature.h"

#include <span>
#include <string_view>

namespace ctxgen {
namespace {

constexpr std::string_view kOutput = "output";

Status check_type(const Node& node, std::string_view role, const Value& value,
                  const ProgramValue& expected) {
  const ValueType& type = value.type;
  if (type.kind == ValueType::Kind::kUnknown) return {};
  if (!type.is_tensor())
    return fail(ErrorCode::kCorruptContext, "{}: {} \"{}\" is not a tensor", node.describe(), role,
                value.name);
  if (type.element != DataType::kUndefined && type.element != expected.type)
    return fail(ErrorCode::kCorruptContext, "{}: {} \"{}\" is {}, the program has {}",
                node.describe(), role, value.name, name_of(type.element), name_of(expected.type));
  if (!type.has_rank() || !expected.has_rank) return {};
  if (type.rank() != expected.dims.size())
    return fail(ErrorCode::kCorruptContext, "{}: {} \"{}\" has rank {}, the program has {}",
                node.describe(), role, value.name, type.rank(), expected.dims.size());
  for (std::size_t i = 0; i < expected.dims.size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    const std::int64_t fixed = expected.dims[i].value;
    if (dim.is_fixed() && fixed >= 0 && dim.value() != fixed)
      return fail(ErrorCode::kCorruptContext,
                  "{}: {} \"{}\": dimension {} is {}, the program has {}", node.describe(), role,
                  value.name, i, dim.value(), fixed);
  }
  return {};
}

Result<std::vector<ValueId>> bind_values(const Graph& graph, const Node& node,
                                         const Program& program, std::string_view role,
                                         std::span<const ValueId> ids,
                                         std::span<const std::uint32_t> wanted) {
  if (ids.size() != wanted.size())
    return fail(ErrorCode::kCorruptContext, "{}: {} {}s, program \"{}\" has {}", node.describe(),
                ids.size(), role, program.name, wanted.size());
  std::vector<ValueId> bound(wanted.size());
  std::vector<bool> used(ids.size(), false);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ProgramValue& expected = program.values[wanted[i]];
    std::size_t at = i;  // the compiler keeps the order: look there first
    const auto matches = [&](std::size_t j) {
      return !used[j] && ids[j].valid() && graph.value(ids[j]).name == expected.name;
    };
    const bool is_left_out = role == kOutput && !ids[i].valid();
    if (!matches(at))
      for (at = 0; at < ids.size() && !matches(at);) ++at;
    if (at == ids.size() && is_left_out) continue;
    if (at == ids.size())
      return fail(ErrorCode::kCorruptContext,
                  "{}: program \"{}\" has the {} \"{}\", the node has not", node.describe(),
                  program.name, role, expected.name);
    used[at] = true;
    CTXGEN_CHECK(check_type(node, role, graph.value(ids[at]), expected));
    bound[i] = ids[at];
  }
  return bound;
}

}  // namespace

Result<BoundSignature> bind_signature(const Graph& graph, const Node& node,
                                      const Program& program) {
  BoundSignature signature;
  signature.inputs =
      CTXGEN_TRY(bind_values(graph, node, program, "input", node.inputs, program.inputs));
  signature.outputs =
      CTXGEN_TRY(bind_values(graph, node, program, kOutput, node.outputs, program.outputs));
  return signature;
}

}  // namespace ctxgen
