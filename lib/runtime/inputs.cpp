#include "inputs.h"

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

}  // namespace

Result<InputTable> InputTable::build(const Model& model) {
  InputTable table;
  table.model_ = &model;
  for (const ValueId id : model.graph.inputs) {
    const Value& value = model.graph.value(id);
    if (value.initializer && !value.is_overridable) continue;  // IR < 4: a constant
    if (!value.type.is_tensor())
      return fail(ErrorCode::kUnsupported, "input \"{}\": {} is no tensor", value.name,
                  to_string(value.type, model));
    table.by_name_.emplace(value.name, table.infos_.size());
    table.infos_.push_back(io_info(model, value));
    table.infos_.back().has_default = value.is_overridable;
    table.ids_.push_back(id);
  }
  return table;
}

Status InputTable::check(const IoInfo& info, const Tensor& tensor,
                         std::vector<std::int64_t>& symbols) const {
  const ValueType& type = info.type;
  if (type.element != DataType::kUndefined && tensor.type() != type.element)
    return fail(ErrorCode::kInvalidArgument, "input \"{}\" is {}, expected {}", info.name,
                name_of(tensor.type()), info.type_text);
  if (!type.has_rank()) return {};
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

Status InputTable::bind(std::span<const NamedTensor> given, std::vector<Binding>& bindings,
                        std::vector<std::int64_t>& symbols) const {
  bindings.clear();
  bindings.resize(infos_.size());
  symbols.assign(model_->symbol_count(), -1);
  for (const NamedTensor& named : given) {
    const auto found = by_name_.find(named.name);
    if (found == by_name_.end())
      return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"; it has {}",
                  named.name, known_names(infos_));
    Binding& binding = bindings[found->second];
    if (binding.tensor.defined())
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" is given twice", named.name);
    if (!named.tensor.defined())
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" is an empty tensor object",
                  named.name);
    CTXGEN_CHECK(check(infos_[found->second], named.tensor, symbols));
    binding = {ids_[found->second], named.tensor};
  }
  for (std::size_t i = 0; i < infos_.size(); ++i)
    if (!bindings[i].tensor.defined() && !infos_[i].has_default)
      return fail(ErrorCode::kInvalidArgument, "input \"{}\" ({}) is missing", infos_[i].name,
                  infos_[i].type_text);
  std::erase_if(bindings, [](const Binding& binding) { return !binding.tensor.defined(); });
  return {};
}

std::vector<IoInfo> output_infos(const Model& model) {
  std::vector<IoInfo> infos;
  for (const ValueId id : model.graph.outputs)
    infos.push_back(io_info(model, model.graph.value(id)));
  return infos;
}

}  // namespace ctxgen
