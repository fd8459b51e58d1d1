#include "plan/params.h"

#include <variant>

namespace ctxgen::onednn {
namespace {

std::unexpected<Error> wrong_type(const ProgramOp& op, std::string_view name,
                                  std::string_view expected) {
  return fail(ErrorCode::kCorruptContext, "{}: parameter {} is not {}", label(op), name, expected);
}

}  // namespace

std::string label(const ProgramOp& op) { return std::format("op \"{}\" ({})", op.name, op.kind); }

const ProgramParam* Params::find(std::string_view name) const {
  for (const ProgramParam& param : op_.params)
    if (param.name == name) return &param;
  return nullptr;
}

Result<std::int64_t> Params::integer(std::string_view name, std::int64_t fallback) const {
  const ProgramParam* param = find(name);
  if (param == nullptr) return fallback;
  const auto* value = std::get_if<std::int64_t>(&param->value);
  if (value == nullptr) return wrong_type(op_, name, "an integer");
  if (*value < -kMaxParam || *value > kMaxParam)
    return fail(ErrorCode::kCorruptContext, "{}: {} is {}, expected at most 2^31", label(op_), name,
                *value);
  return *value;
}

Result<double> Params::real(std::string_view name, double fallback) const {
  const ProgramParam* param = find(name);
  if (param == nullptr) return fallback;
  if (const auto* value = std::get_if<double>(&param->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&param->value))
    return static_cast<double>(*value);
  return wrong_type(op_, name, "a number");
}

Result<std::string> Params::text(std::string_view name, std::string_view fallback) const {
  const ProgramParam* param = find(name);
  if (param == nullptr) return std::string(fallback);
  const auto* value = std::get_if<ShortText>(&param->value);
  if (value == nullptr) return wrong_type(op_, name, "a string");
  return value->str();
}

Result<std::vector<std::int64_t>> Params::list(std::string_view name) const {
  const ProgramParam* param = find(name);
  if (param == nullptr) return std::vector<std::int64_t>();
  if (const auto* reals = std::get_if<SmallList<double>>(&param->value)) {
    // An empty list has no type of its own in some writers.
    if (reals->empty()) return std::vector<std::int64_t>();
    return wrong_type(op_, name, "a list of integers");
  }
  const auto* value = std::get_if<SmallList<std::int64_t>>(&param->value);
  if (value == nullptr) return wrong_type(op_, name, "a list of integers");
  if (value->size() > 4096)
    return fail(ErrorCode::kCorruptContext, "{}: {} has {} values, expected at most 4096",
                label(op_), name, value->size());
  return *value;
}

Result<std::vector<double>> Params::reals(std::string_view name) const {
  const ProgramParam* param = find(name);
  if (param == nullptr) return std::vector<double>();
  if (const auto* whole = std::get_if<SmallList<std::int64_t>>(&param->value);
      whole != nullptr && whole->empty())
    return std::vector<double>();
  const auto* value = std::get_if<SmallList<double>>(&param->value);
  if (value == nullptr) return wrong_type(op_, name, "a list of numbers");
  if (value->size() > 4096)
    return fail(ErrorCode::kCorruptContext, "{}: {} has {} values, expected at most 4096",
                label(op_), name, value->size());
  return *value;
}

Result<std::vector<std::int64_t>> Params::integers(std::string_view name, std::size_t count,
                                                   std::int64_t fallback) const {
  std::vector<std::int64_t> values = CTXGEN_TRY(list(name));
  if (values.empty()) return std::vector<std::int64_t>(count, fallback);
  if (values.size() != count)
    return fail(ErrorCode::kInvalidGraph, "{}: {} has {} values, expected {}", label(op_), name,
                values.size(), count);
  for (const std::int64_t value : values)
    if (value < -kMaxParam || value > kMaxParam)
      return fail(ErrorCode::kCorruptContext, "{}: {} holds {}, expected at most 2^31", label(op_),
                  name, value);
  return values;
}

Result<std::size_t> normal_axis(const ProgramOp& op, std::int64_t axis, std::size_t rank) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank)
    return fail(ErrorCode::kInvalidGraph, "{}: axis {} outside rank {}", label(op), axis, rank);
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

Result<std::size_t> axis_param(const ProgramOp& op, std::int64_t fallback, std::size_t rank) {
  const std::int64_t axis = CTXGEN_TRY(Params(op).integer("axis", fallback));
  return normal_axis(op, axis, rank);
}

}  // namespace ctxgen::onednn
