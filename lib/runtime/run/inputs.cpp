#include "run/inputs.h"

#include <algorithm>
#include <string>

namespace ctxgen {
namespace {

std::string known_names(std::span<const IoInfo> infos) {
  std::string text;
  for (const IoInfo& info : infos) text += (text.empty() ? "\"" : ", \"") + info.name + "\"";
  return text.empty() ? "none" : text;
}

IoInfo io_info(const Model& model, const Value& value) {
  IoInfo info{.name = value.name,
              .type = value.type,
              .type_text = to_string(value.type, model),
              .dim_names = {},
              .has_default = false};
  if (value.type.has_rank())
    for (const Dim& dim : *value.type.shape)
      info.dim_names.push_back(dim.is_symbol() ? model.symbol_name(dim.symbol()) : "");
  return info;
}

using Kind = ValueType::Kind;

bool can_be_given(Kind kind) {
  return kind == Kind::kTensor || kind == Kind::kSequence || kind == Kind::kOptional ||
         kind == Kind::kMap || kind == Kind::kUnknown;
}

/// A sequence's or an optional's content; shapes inside are the kernels' business.
bool has_elements(const RuntimeValue& value, DataType element) {
  if (element == DataType::kUndefined) return true;
  if (value.is_tensor()) return value.tensor().type() == element;
  return value.kind() == RuntimeValue::Kind::kSequence &&
         std::ranges::all_of(value.sequence().items, [&](const RuntimeValue& item) {
           return item.is_tensor() && item.tensor().type() == element;
         });
}

bool is_of_kind(const RuntimeValue& value, const ValueType& type) {
  using Have = RuntimeValue::Kind;
  switch (type.kind) {
    case Kind::kUnknown: return true;
    case Kind::kTensor: return value.is_tensor();
    case Kind::kSequence:
      return value.kind() == Have::kSequence && has_elements(value, type.element);
    case Kind::kOptional:
      return value.kind() == Have::kEmptyOptional || has_elements(value, type.element);
    case Kind::kMap: return value.kind() == Have::kMap;
    default: return false;
  }
}

}  // namespace

Result<InputTable> InputTable::build(const Model& model) {
  InputTable table;
  table.model_ = &model;
  for (const ValueId id : model.graph.inputs) {
    const Value& value = model.graph.value(id);
    if (value.initializer && !value.is_overridable) continue;  // IR < 4: a constant
    if (!can_be_given(value.type.kind))
      return fail(ErrorCode::kUnsupported, "input \"{}\": values of type {} cannot be given",
                  value.name, to_string(value.type, model));
    table.by_name_.emplace(value.name, table.infos_.size());
    table.infos_.push_back(io_info(model, value));
    table.infos_.back().has_default = value.is_overridable;
    table.ids_.push_back(id);
  }
  return table;
}

namespace {

/// [1] and the like where a scalar is declared: ONNX Runtime does not ask for the rank there.
bool is_one_for_scalar(const IoInfo& info, const Tensor& tensor) {
  return info.type.is_tensor() && info.type.has_rank() && info.type.rank() == 0 &&
         tensor.rank() > 0 && tensor.element_count() == 1;
}

/// The value as the model sees it.
RuntimeValue as_declared(const IoInfo& info, const RuntimeValue& value) {
  if (!value.is_tensor() || !is_one_for_scalar(info, value.tensor())) return value;
  return value.tensor().with_dims({});
}

}  // namespace

Status InputTable::check(const IoInfo& info, const RuntimeValue& value,
                         std::vector<std::int64_t>& symbols) const {
  if (!is_of_kind(value, info.type))
    return fail(ErrorCode::kInvalidArgument, "input \"{}\" is {}, expected {}", info.name,
                describe(value), info.type_text);
  return info.type.is_tensor() ? check_tensor(info, value.tensor(), symbols) : Status();
}

Status InputTable::check_tensor(const IoInfo& info, const Tensor& tensor,
                                std::vector<std::int64_t>& symbols) const {
  const ValueType& type = info.type;
  if (type.element != DataType::kUndefined && tensor.type() != type.element)
    return fail(ErrorCode::kInvalidArgument, "input \"{}\" is {}, expected {}", info.name,
                name_of(tensor.type()), info.type_text);
  if (!type.has_rank() || is_one_for_scalar(info, tensor)) return {};
  if (tensor.rank() != type.rank())
    return fail(ErrorCode::kInvalidArgument, "input \"{}\" has shape {}, expected {}", info.name,
                to_string(tensor.dims()), info.type_text);
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    const Dim& dim = (*type.shape)[i];
    const std::int64_t size = tensor.dims()[i];
    if (dim.is_fixed() && dim.value() != size)
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" has shape {}, expected {}", info.name,
                  to_string(tensor.dims()), info.type_text);
    if (!dim.is_symbol()) continue;
    std::int64_t& seen = symbols[dim.symbol().index];
    if (seen >= 0 && seen != size)
      return fail(ErrorCode::kInvalidArgument,
                  "input \"{}\" has shape {}: dimension \"{}\" is {} here and {} in another input",
                  info.name, to_string(tensor.dims()), model_->symbol_name(dim.symbol()), size,
                  seen);
    seen = size;
  }
  return {};
}

Status InputTable::bind(std::span<const GivenInput> given, std::vector<Binding>& bindings,
                        std::vector<std::int64_t>& symbols) const {
  bindings.clear();
  bindings.resize(infos_.size());
  symbols.assign(model_->symbol_count(), -1);
  for (const GivenInput& named : given) {
    const auto found = by_name_.find(named.name);
    if (found == by_name_.end())
      return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"; it has {}",
                  named.name, known_names(infos_));
    Binding& binding = bindings[found->second];
    if (binding.value.defined())
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" is given twice", named.name);
    if (!named.value.defined())
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" is an empty tensor object",
                  named.name);
    CTXGEN_CHECK(check(infos_[found->second], named.value, symbols));
    binding = {ids_[found->second], as_declared(infos_[found->second], named.value)};
  }
  return complete(bindings);
}

Status InputTable::bind_all(std::span<const RuntimeValue> values, std::vector<Binding>& bindings,
                            std::vector<std::int64_t>& symbols) const {
  bindings.clear();
  bindings.resize(infos_.size());
  symbols.assign(model_->symbol_count(), -1);
  for (std::size_t i = 0; i < std::min(values.size(), infos_.size()); ++i) {
    if (!values[i].defined()) continue;
    CTXGEN_CHECK(check(infos_[i], values[i], symbols));
    bindings[i] = {ids_[i], as_declared(infos_[i], values[i])};
  }
  return complete(bindings);
}

void InputTable::read_symbols(std::span<const RuntimeValue> values,
                              std::vector<std::int64_t>& symbols) const {
  symbols.assign(model_->symbol_count(), -1);
  for (std::size_t i = 0; i < std::min(values.size(), infos_.size()); ++i) {
    const ValueType& type = infos_[i].type;
    if (!values[i].is_tensor() || !type.has_rank() || type.rank() != values[i].tensor().rank())
      continue;
    for (std::size_t axis = 0; axis < type.rank(); ++axis)
      if (const Dim& dim = (*type.shape)[axis]; dim.is_symbol())
        symbols[dim.symbol().index] = values[i].tensor().dims()[axis];
  }
}

/// What was not given: an error, a default, or an empty optional.
Status InputTable::complete(std::vector<Binding>& bindings) const {
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    if (bindings[i].value.defined() || infos_[i].has_default) continue;
    if (infos_[i].type.kind != Kind::kOptional)
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" ({}) is missing", infos_[i].name,
                  infos_[i].type_text);
    bindings[i] = {ids_[i], RuntimeValue::empty_optional()};
  }
  std::erase_if(bindings, [](const Binding& binding) { return !binding.value.defined(); });
  return {};
}

std::vector<IoInfo> output_infos(const Model& model) {
  std::vector<IoInfo> infos;
  for (const ValueId id : model.graph.outputs)
    infos.push_back(io_info(model, model.graph.value(id)));
  return infos;
}

}  // namespace ctxgen
