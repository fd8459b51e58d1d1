#include "ctxgen/onednn/param_codec.h"

#include <algorithm>
#include <variant>

#include "plan/params.h"

namespace ctxgen::onednn {

void set_param(ProgramOp& op, std::string_view name, decltype(ProgramParam::value) value) {
  const auto found = std::ranges::find(op.params, name, &ProgramParam::name);
  if (found != op.params.end()) {
    found->value = std::move(value);
  } else {
    op.params.push_back({name, std::move(value)});
  }
}

const ProgramParam* find_param(const ProgramOp& op, std::string_view name) {
  const auto found = std::ranges::find(op.params, name, &ProgramParam::name);
  return found == op.params.end() ? nullptr : &*found;
}

void ParamReader::refuse(std::string_view name, std::string_view expected) {
  if (status_)
    status_ = fail(ErrorCode::kCorruptContext, "{}: parameter {} must be {}", label(*op_), name,
                   expected);
}

/// The value of a parameter; null, and an error unless it is absent, where it has no such type.
template <class T>
const T* ParamReader::get(std::string_view name, std::string_view expected) {
  const ProgramParam* param = find_param(*op_, name);
  if (param == nullptr) return nullptr;
  const T* value = std::get_if<T>(&param->value);
  if (value == nullptr) refuse(name, expected);
  return value;
}

void ParamReader::operator()(std::string_view name, std::int64_t& value) {
  const auto* found = get<std::int64_t>(name, "an integer");
  if (found == nullptr) return;
  if (*found < -kMaxParam || *found > kMaxParam) return refuse(name, "within 2^31");
  value = *found;
}

void ParamReader::operator()(std::string_view name, bool& value) {
  std::int64_t number = value ? 1 : 0;
  (*this)(name, number);
  value = number != 0;
}

void ParamReader::operator()(std::string_view name, double& value) {
  const ProgramParam* param = find_param(*op_, name);
  const auto* whole = param == nullptr ? nullptr : std::get_if<std::int64_t>(&param->value);
  if (whole != nullptr)
    value = static_cast<double>(*whole);
  else if (const auto* found = get<double>(name, "a number"))
    value = *found;
}

void ParamReader::operator()(std::string_view name, std::string& value) {
  if (const auto* found = get<ShortText>(name, "a text")) value = found->str();
}

namespace {

constexpr std::size_t kMostElements = 4096;

/// An empty list has no type of its own in some writers.
template <class Other>
bool is_empty_list(const ProgramParam* param) {
  const auto* list = param == nullptr ? nullptr : std::get_if<SmallList<Other>>(&param->value);
  return list != nullptr && list->empty();
}

}  // namespace

void ParamReader::operator()(std::string_view name, std::vector<std::int64_t>& value) {
  if (is_empty_list<double>(find_param(*op_, name))) return value.clear();
  const auto* found = get<SmallList<std::int64_t>>(name, "a list of integers");
  if (found == nullptr) return;
  if (found->size() > kMostElements) return refuse(name, "a list of at most 4096");
  value.assign(found->begin(), found->end());
}

void ParamReader::operator()(std::string_view name, std::vector<double>& value) {
  if (is_empty_list<std::int64_t>(find_param(*op_, name))) return value.clear();
  const auto* found = get<SmallList<double>>(name, "a list of numbers");
  if (found == nullptr) return;
  if (found->size() > kMostElements) return refuse(name, "a list of at most 4096");
  value.assign(found->begin(), found->end());
}

}  // namespace ctxgen::onednn
