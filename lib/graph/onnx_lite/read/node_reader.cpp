#include <algorithm>

#include "read/import_context.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace fn = field::node;

namespace {

// No operator has as many; names are compared pairwise below.
constexpr std::size_t kMaxAttributes = 1024;

Status check_attribute_names(const NodeText& text) {
  if (text.attributes.size() > kMaxAttributes)
    return fail(ErrorCode::kResourceLimit, "{}: {} attributes, more than {}", text.describe(),
                text.attributes.size(), kMaxAttributes);
  for (std::size_t i = 0; i < text.attributes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (text.attributes[i].name == text.attributes[j].name)
        return fail(ErrorCode::kInvalidGraph, "{}: duplicate attribute \"{}\"", text.describe(),
                    text.attributes[i].name);
  return {};
}

// Models forget to import domains. As in ONNX Runtime such a domain has its newest version (ours, where
// versions differ), unless the model imports nothing at all. The version is written into what is made
// of the model, whose readers may know a newer one. Functions have to import what they use.
Result<std::int64_t> opset_of(ImportContext& context, const Scope& scope, const NodeText& text) {
  if (const auto version = scope.opset(text.domain)) return *version;
  const auto& imports = context.model.opset_imports;
  const bool of_model = !imports.empty() && scope.opsets().data() == imports.data();
  if (text.domain.empty() && !of_model)
    return fail(ErrorCode::kInvalidGraph, "{}: the default domain is not imported",
                text.describe());
  const std::int64_t version = text.domain.empty()           ? kMaxOpset
                               : text.domain == "ai.onnx.ml" ? kMaxMlOpset
                                                             : 1;
  auto& implied = context.model.implied_opsets;
  if (version != 1 && of_model &&
      std::ranges::find(implied, text.domain, &OpsetImport::domain) == implied.end())
    implied.push_back({std::string(text.domain), version});
  return version;
}

Status read_inputs(ImportContext& context, Scope& scope, const NodeText& text, Node& node) {
  node.inputs.reserve(text.inputs.size());
  for (const std::string_view name : text.inputs) {
    const auto id = name.empty() ? std::optional(ValueId{}) : scope.resolve(name);
    if (!id) {
      context.met_later_name = true;
      return fail(
          ErrorCode::kInvalidGraph,
          "{}: input \"{}\" has no source (no node, graph input or initializer of that name)",
          text.describe(), name);
    }
    node.inputs.push_back(*id);
  }
  return {};
}

Status define_outputs(ImportContext& context, Scope& scope, const NodeText& text, Node& node) {
  node.outputs.reserve(text.outputs.size());
  for (const std::string_view name : text.outputs) {
    if (name.empty()) {
      node.outputs.push_back({});
      continue;
    }
    auto id = scope.define(name, "");
    if (!id) {
      // A node of this graph may have read a value of that name around it, as this one comes too late.
      context.met_later_name = true;
      return fail(ErrorCode::kInvalidGraph, "{}: value \"{}\" is defined twice", text.describe(),
                  name);
    }
    node.outputs.push_back(*id);
  }
  return {};
}

Status read_attributes(ImportContext& context, Scope& scope, const NodeText& text, Node& node) {
  Captures captures;
  Captures* outside = std::exchange(scope.build().captures, &captures);
  Status status;
  node.attributes.reserve(text.attributes.size());
  for (const AttributeText& attribute : text.attributes) {
    auto read = read_attribute(context, scope, attribute);
    if (!read) {
      status = std::unexpected(with_context(std::move(read).error(), text.describe()));
      break;
    }
    if (*read) node.attributes.push_back(**std::move(read));
  }
  scope.build().captures = outside;
  node.captures = captures.ids;
  return status;
}

// The value of a Constant node is known from here on, though the node stays.
Status fold_constant(Scope& scope, const Node& node) {
  const bool deferred =
      std::ranges::any_of(node.attributes, [](const Attribute& a) { return !a.ref_name.empty(); });
  if (deferred || !node.output(0).valid()) return {};
  Value& value = scope.graph().value(node.output(0));
  value.folded = CTXGEN_TRY(constant_of(node));
  value.type.kind = ValueType::Kind::kTensor;
  value.type.element = value.folded->type();
  value.type.shape.emplace();
  for (const std::int64_t dim : value.folded->dims()) value.type.shape->push_back(Dim::fixed(dim));
  return {};
}

Status add_node(ImportContext& context, Scope& scope, const NodeText& text) {
  Node node;
  node.op_type = text.op_type;
  node.domain = text.domain;
  node.overload = text.overload;
  node.name = scope.renames() && !text.name.empty() ? scope.prefix() + std::string(text.name)
                                                    : std::string(text.name);
  node.opset = CTXGEN_TRY(opset_of(context, scope, text));
  if (!scope.renames()) node.source = context.range_of(text.message);
  node.call = scope.build().call;
  CTXGEN_CHECK(read_inputs(context, scope, text, node));
  CTXGEN_CHECK(read_attributes(context, scope, text, node));
  CTXGEN_CHECK(define_outputs(context, scope, text, node));
  CTXGEN_CHECK(context.count_items(node.outputs.size()));
  if (node.op_type == "Constant" && node.domain.empty()) CTXGEN_CHECK(fold_constant(scope, node));
  scope.graph().add_node(std::move(node));
  return {};
}

}  // namespace

std::string NodeText::describe() const {
  if (!name.empty()) return std::format("node \"{}\" ({})", name, op_type);
  return std::format("node of \"{}\" ({})", outputs.empty() ? "" : outputs.front(), op_type);
}

Result<NodeText> read_node_text(Message message) {
  NodeText text;
  text.message = message;
  MessageReader reader(message, "node");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(fn::kInput): text.inputs.push_back(f->text()); break;
      case wire::bytes(fn::kOutput): text.outputs.push_back(f->text()); break;
      case wire::bytes(fn::kName): text.name = f->text(); break;
      case wire::bytes(fn::kOpType): text.op_type = f->text(); break;
      case wire::bytes(fn::kDomain): text.domain = normalised_domain(f->text()); break;
      case wire::bytes(fn::kOverload): text.overload = f->text(); break;
      case wire::bytes(fn::kAttribute):
        text.attributes.push_back(CTXGEN_TRY(read_attribute_name(f->body)));
        break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  if (text.op_type.empty())
    return fail(ErrorCode::kInvalidGraph, "node \"{}\" has no operator", text.name);
  CTXGEN_CHECK(check_attribute_names(text));
  return text;
}

namespace {

Status count_names(ImportContext& context, const NodeText& text) {
  for (const std::string_view name : {text.name, text.op_type, text.domain, text.overload})
    CTXGEN_CHECK(context.count_name(name));
  for (const std::string_view name : text.inputs) CTXGEN_CHECK(context.count_name(name));
  for (const std::string_view name : text.outputs) CTXGEN_CHECK(context.count_name(name));
  for (const AttributeText& each : text.attributes) CTXGEN_CHECK(context.count_name(each.name));
  return {};
}

}  // namespace

Status read_node(ImportContext& context, Scope& scope, Message message) {
  const NodeText text = CTXGEN_TRY(read_node_text(message));
  CTXGEN_CHECK(count_names(context, text));
  CTXGEN_CHECK(context.count_node());
  FunctionText* function = context.expand_functions ? context.find_function(text) : nullptr;
  if (function != nullptr) return expand_call(context, scope, text, *function);
  return add_node(context, scope, text);
}

}  // namespace ctxgen
