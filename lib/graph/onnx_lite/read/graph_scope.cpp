#include "read/graph_scope.h"

namespace ctxgen {

ValueId Scope::find(std::string_view name) const {
  if (!renames_) return graph().find(name);
  const auto found = names_.find(name);
  return found == names_.end() ? ValueId{} : found->second;
}

ValueId Scope::new_name(std::string_view name) const {
  if (!renames_) return graph().find_or_add(name);
  std::string unique = prefix_ + std::string(name);
  while (build_.is_taken(unique)) unique += '_';
  const ValueId id = graph().find_or_add(unique);
  names_.insert_or_assign(std::string(name), id);
  return id;
}

ValueId Scope::declare(std::string_view name) {
  const ValueId id = find(name);
  return id.valid() ? id : new_name(name);
}

Result<ValueId> Scope::define(std::string_view name, std::string_view by) {
  const ValueId id = declare(name);
  if (build_.is_defined(id))
    return fail(ErrorCode::kInvalidGraph, "{}: value \"{}\" is defined twice", by, name);
  build_.define(id);
  return id;
}

std::optional<ValueId> Scope::resolve(std::string_view name) const {
  if (renames_) {
    const auto bound = names_.find(name);
    if (bound != names_.end() && (!bound->second.valid() || build_.is_defined(bound->second)))
      return bound->second;
  } else if (const ValueId id = graph().find(name); id.valid() && build_.is_defined(id)) {
    return id;
  }
  if (parent_ == nullptr) return std::nullopt;
  const std::optional<ValueId> outer = parent_->resolve(name);
  if (!outer || !outer->valid()) return outer;
  if (Captures* captures = parent_->build_.captures; captures != nullptr) captures->add(*outer);

  const Value& source = parent_->graph().value(*outer);
  const ValueId declared = renames_ ? find(name) : ValueId{};  // with a type of its own, maybe
  // The stand-in has the outer value's name, which is not the text's inside a function body.
  const ValueId id = graph().find_or_add(source.name);
  if (renames_) names_.insert_or_assign(std::string(name), id);
  Value& value = graph().value(id);
  value.is_outer = true;
  if (value.type.kind == ValueType::Kind::kUnknown) value.type = source.type;
  if (value.type.kind == ValueType::Kind::kUnknown && declared.valid())
    value.type = graph().value(declared).type;
  build_.define(id);
  return id;
}

std::optional<std::int64_t> Scope::opset(std::string_view domain) const {
  for (const OpsetImport& import : opsets_)
    if (import.domain == domain) return import.version;
  return std::nullopt;
}

}  // namespace ctxgen
