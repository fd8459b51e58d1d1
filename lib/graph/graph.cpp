#include "ctxgen/graph/graph.h"

#include <algorithm>
#include <bit>
#include <format>
#include <functional>

namespace ctxgen {

bool may_be_same(const ValueType& a, const ValueType& b) {
  if (a.kind != b.kind || a.element != b.element) return false;
  if (!a.has_rank() || !b.has_rank()) return true;
  return std::ranges::equal(*a.shape, *b.shape, [](const Dim& x, const Dim& y) {
    return !x.is_fixed() || !y.is_fixed() || x.value() == y.value();
  });
}

std::optional<Dims> ValueType::fixed_dims() const {
  if (!shape || shape->size() > kMaxRank) return std::nullopt;
  Dims dims;
  for (const Dim& dim : *shape) {
    if (!dim.is_fixed()) return std::nullopt;
    dims.push_back(dim.value());
  }
  return dims;
}

const Attribute* Node::attribute(std::string_view attribute_name) const {
  for (const Attribute& candidate : attributes)
    if (candidate.name == attribute_name) return &candidate;
  return nullptr;
}

std::int64_t Node::int_or(std::string_view attribute_name, std::int64_t otherwise) const {
  const Attribute* found = attribute(attribute_name);
  return found != nullptr && found->kind == AttributeKind::kInt ? found->i : otherwise;
}

float Node::float_or(std::string_view attribute_name, float otherwise) const {
  const Attribute* found = attribute(attribute_name);
  return found != nullptr && found->kind == AttributeKind::kFloat ? found->f : otherwise;
}

std::string_view Node::string_or(std::string_view attribute_name,
                                 std::string_view otherwise) const {
  const Attribute* found = attribute(attribute_name);
  return found != nullptr && found->kind == AttributeKind::kString ? found->s : otherwise;
}

std::optional<std::span<const std::int64_t>> Node::ints(std::string_view attribute_name) const {
  const Attribute* found = attribute(attribute_name);
  if (found == nullptr || found->kind != AttributeKind::kInts) return std::nullopt;
  return std::span<const std::int64_t>(found->ints);
}

ValueId Node::input(std::size_t index) const {
  return index < inputs.size() ? inputs[index] : ValueId{};
}

ValueId Node::output(std::size_t index) const {
  return index < outputs.size() ? outputs[index] : ValueId{};
}

std::string Node::describe() const {
  if (!name.empty()) return std::format("node \"{}\" ({})", name, op_type);
  return std::format("node of \"{}\" ({})", first_output_name, op_type);
}

const Tensor* Value::constant() const {
  if (folded) return &*folded;
  return initializer && !is_overridable ? &*initializer : nullptr;
}

const Tensor* Value::constant_by_default() const {
  if (const Tensor* known = constant()) return known;
  if (by_default) return &*by_default;
  return initializer ? &*initializer : nullptr;
}

namespace {

std::uint32_t hash_of(std::string_view name) {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(name));
}

}  // namespace

/// Where the name is, or the free place that it would get. Requires a table.
std::size_t Graph::slot_of(std::string_view value_name, std::uint32_t hash) const {
  const std::size_t mask = names_.size() - 1;
  std::size_t slot = hash & mask;
  while (names_[slot].id.valid() &&
         (names_[slot].hash != hash || value(names_[slot].id).name != value_name))
    slot = (slot + 1) & mask;
  return slot;
}

/// Makes room for so many names.
void Graph::grow_names(std::size_t values) {
  if (values <= names_.size() / 4 * 3) return;
  names_.assign(std::bit_ceil(values / 3 * 4 + 8), NameSlot());
  const std::size_t mask = names_.size() - 1;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    const std::uint32_t hash = hash_of(values_[i].name);
    std::size_t slot = hash & mask;
    while (names_[slot].id.valid()) slot = (slot + 1) & mask;
    names_[slot] = {hash, ValueId{i}};
  }
}

ValueId Graph::find(std::string_view value_name) const {
  return names_.empty() ? ValueId{} : names_[slot_of(value_name, hash_of(value_name))].id;
}

ValueId Graph::find_or_add(std::string_view value_name) {
  grow_names(values_.size() + 1);
  const std::uint32_t hash = hash_of(value_name);
  NameSlot& slot = names_[slot_of(value_name, hash)];
  if (!slot.id.valid()) {
    slot = {hash, ValueId{static_cast<std::uint32_t>(values_.size())}};
    values_.emplace_back().name = value_name;
  }
  return slot.id;
}

void Graph::reserve(std::size_t values, std::size_t nodes) {
  values_.reserve(values);
  grow_names(values);
  nodes_.reserve(nodes);
}

namespace {

// Nodes are entered in ascending order, so a repeated use is always the last entry.
void add_consumer(Value& value, NodeId node) {
  if (value.consumers.empty() || value.consumers.back() != node) value.consumers.push_back(node);
}

}  // namespace

NodeId Graph::add_node(Node node) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  nodes_.push_back(std::move(node));
  link(id);
  return id;
}

void Graph::link(NodeId id) {
  Node& node = nodes_[id.index];
  for (const ValueId input : node.inputs)
    if (input.valid()) add_consumer(value(input), id);
  for (const ValueId captured : node.captures) add_consumer(value(captured), id);
  node.first_output_name.clear();
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    CTXGEN_ASSERT(!value(output).producer.valid());
    value(output).producer = id;
    if (node.first_output_name.empty()) node.first_output_name = value(output).name;
  }
}

std::int32_t Graph::add_call(FunctionCall call) {
  calls_.push_back(std::move(call));
  return static_cast<std::int32_t>(calls_.size() - 1);
}

void Graph::relink() {
  for (Value& each : values_) {
    each.producer = NodeId{};
    each.consumers.clear();
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) link(NodeId{i});
}

void Graph::set_nodes(std::vector<Node> nodes) {
  nodes_ = std::move(nodes);
  relink();
}

SymbolId Model::symbol(std::string_view dim_param) {
  if (const auto found = symbol_ids_.find(dim_param); found != symbol_ids_.end())
    return found->second;
  const SymbolId id{static_cast<std::uint32_t>(symbols_.size())};
  symbols_.emplace_back(dim_param);
  symbol_ids_.emplace(dim_param, id);
  return id;
}

std::optional<std::int64_t> Model::opset(std::string_view domain) const {
  for (const auto* imports : {&opset_imports, &implied_opsets})
    for (const OpsetImport& import : *imports)
      if (import.domain == domain) return import.version;
  return std::nullopt;
}

namespace {

std::string dim_text(const Dim& dim, const Model& model) {
  if (dim.is_fixed()) return std::to_string(dim.value());
  return dim.is_symbol() ? model.symbol_name(dim.symbol()) : "?";
}

std::string tensor_text(const ValueType& type, const Model& model) {
  std::string text(name_of(type.element));
  if (!type.shape) return text + "[...]";
  text += "[";
  for (std::size_t i = 0; i < type.shape->size(); ++i) {
    if (i != 0) text += ", ";
    text += dim_text((*type.shape)[i], model);
  }
  return text + "]";
}

}  // namespace

std::string to_string(const ValueType& type, const Model& model) {
  switch (type.kind) {
    case ValueType::Kind::kUnknown: return "unknown";
    case ValueType::Kind::kTensor: return tensor_text(type, model);
    case ValueType::Kind::kSparseTensor: return std::format("sparse({})", tensor_text(type, model));
    case ValueType::Kind::kSequence: return std::format("sequence({})", tensor_text(type, model));
    case ValueType::Kind::kOptional: return std::format("optional({})", tensor_text(type, model));
    case ValueType::Kind::kMap: return "map";
    case ValueType::Kind::kOpaque: return "opaque";
  }
  return "unknown";
}

}  // namespace ctxgen
