#include "read/import_context.h"
#include "tensors/type_reader.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace fg = field::graph;

namespace {

struct GraphText {
  std::vector<Message> nodes, initializers, sparse_initializers, inputs, outputs, value_infos;
};

Result<GraphText> split(ImportContext& context, Graph& graph, Message message, bool main) {
  GraphText text;
  MessageReader reader(message, "graph");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(fg::kNode): text.nodes.push_back(f->body); continue;
      case wire::bytes(fg::kInitializer): text.initializers.push_back(f->body); continue;
      case wire::bytes(fg::kSparseInitializer):
        text.sparse_initializers.push_back(f->body);
        continue;
      case wire::bytes(fg::kInput): text.inputs.push_back(f->body); continue;
      case wire::bytes(fg::kOutput): text.outputs.push_back(f->body); continue;
      case wire::bytes(fg::kValueInfo): text.value_infos.push_back(f->body); continue;
      case wire::bytes(fg::kName): graph.name = f->text(); break;
      default: break;
    }
    if (!main) continue;
    CTXGEN_CHECK(context.count_items(1));
    context.model.graph_other_sources.push_back(context.range_of(f->whole));
  }
  CTXGEN_CHECK(reader.status());
  CTXGEN_CHECK(context.count_items(text.inputs.size() + text.outputs.size() +
                                   text.value_infos.size() + text.initializers.size() +
                                   text.sparse_initializers.size()));
  return text;
}

Status check_name(std::string_view name, std::string_view what) {
  if (name.empty()) return fail(ErrorCode::kInvalidGraph, "{} without a name", what);
  return {};
}

Status read_value_infos(ImportContext& context, Scope& scope, const GraphText& text) {
  for (const Message message : text.value_infos) {
    ValueInfo info = CTXGEN_TRY(read_value_info(message, context.model));
    if (info.name.empty()) continue;
    CTXGEN_CHECK(context.count_name(info.name));
    Value& value = scope.graph().value(scope.declare(info.name));
    value.type = std::move(info.type);
    value.edit_sources().info = context.range_of(message);
  }
  return {};
}

Status read_inputs(ImportContext& context, Scope& scope, const GraphText& text) {
  for (const Message message : text.inputs) {
    ValueInfo info = CTXGEN_TRY(read_value_info(message, context.model));
    CTXGEN_CHECK(check_name(info.name, "a graph input"));
    CTXGEN_CHECK(context.count_name(info.name));
    const ValueId id = CTXGEN_TRY(scope.define(info.name, "graph input"));
    Value& value = scope.graph().value(id);
    value.is_input = true;
    value.edit_sources().input = context.range_of(message);
    if (info.type.kind != ValueType::Kind::kUnknown) value.type = std::move(info.type);
    scope.graph().inputs.push_back(id);
  }
  return {};
}

// Before the nodes: their subgraphs may read the values, and want the types.
Status read_output_types(ImportContext& context, Scope& scope, const GraphText& text) {
  for (const Message message : text.outputs) {
    ValueInfo info = CTXGEN_TRY(read_value_info(message, context.model));
    CTXGEN_CHECK(check_name(info.name, "a graph output"));
    CTXGEN_CHECK(context.count_name(info.name));
    Value& value = scope.graph().value(scope.declare(info.name));
    if (info.type.kind != ValueType::Kind::kUnknown && !value.is_input)
      value.type = std::move(info.type);
  }
  return {};
}

void set_exact_type(Value& value, const Tensor& tensor) {
  value.type.kind = ValueType::Kind::kTensor;
  value.type.element = tensor.type();
  value.type.shape.emplace();
  for (const std::int64_t dim : tensor.dims()) value.type.shape->push_back(Dim::fixed(dim));
}

Status add_initializer(ImportContext& context, Scope& scope, NamedTensor named, Message message,
                       bool sparse) {
  if (named.name.empty()) return {};  // no node can refer to it
  CTXGEN_CHECK(context.count_name(named.name));
  const ValueId id = scope.declare(named.name);
  Value& value = scope.graph().value(id);
  // Of several of one name the last one counts, as in ONNX Runtime; the others are not written.
  scope.build().define(id);
  // Until IR version 3 every initializer had to be an input; since 4 that makes it a default.
  value.is_overridable = value.is_input && context.model.ir_version >= 4;
  if (!value.is_overridable) set_exact_type(value, named.tensor);
  value.initializer = std::move(named.tensor);
  value.edit_sources().initializer = context.range_of(message);
  value.initializer_is_external = named.is_external;
  value.is_sparse = sparse;
  return {};
}

Status read_initializers(ImportContext& context, Scope& scope, const GraphText& text) {
  for (const Message message : text.initializers)
    CTXGEN_CHECK(
        add_initializer(context, scope, CTXGEN_TRY(context.tensors.read(message)), message, false));
  for (const Message message : text.sparse_initializers)
    CTXGEN_CHECK(add_initializer(context, scope, CTXGEN_TRY(context.tensors.read_sparse(message)),
                                 message, true));
  return {};
}

// Expanded function bodies get names that no later node of the text has.
Status reserve_names(Scope& scope, const GraphText& text) {
  for (const Message message : text.nodes) {
    MessageReader reader(message, "node");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(field::node::kOutput) && !f->body.empty())
        static_cast<void>(scope.declare(f->text()));
    CTXGEN_CHECK(reader.status());
  }
  return {};
}

Status read_outputs(ImportContext& context, Scope& scope, const GraphText& text) {
  for (const Message message : text.outputs) {
    const ValueInfo info = CTXGEN_TRY(read_value_info(message, context.model));
    const std::optional<ValueId> id = scope.resolve(info.name);
    if (!id || !id->valid()) {
      context.met_later_name = true;
      return fail(ErrorCode::kInvalidGraph, "graph output \"{}\" has no source", info.name);
    }
    Value& value = scope.graph().value(*id);
    if (value.output_source().empty()) value.edit_sources().output = context.range_of(message);
    value.is_output = true;
    scope.graph().outputs.push_back(*id);
  }
  return {};
}

}  // namespace

Status read_graph(ImportContext& context, Scope& scope, Message message, bool main) {
  GraphText text = CTXGEN_TRY(split(context, scope.graph(), message, main));
  // What is written of the main graph follows Graph::nodes.
  CTXGEN_CHECK(context.sort(main ? Message() : message, text.nodes));
  // Every node gives one value at least, as a rule; nothing is lost if that is a bad guess.
  scope.graph().reserve(text.nodes.size() + text.inputs.size() + text.initializers.size(),
                        text.nodes.size());
  CTXGEN_CHECK(read_value_infos(context, scope, text));
  CTXGEN_CHECK(read_inputs(context, scope, text));
  CTXGEN_CHECK(read_output_types(context, scope, text));
  CTXGEN_CHECK(read_initializers(context, scope, text));
  if (context.expand_functions && !context.functions.empty())
    CTXGEN_CHECK(reserve_names(scope, text));
  for (const Message node : text.nodes) CTXGEN_CHECK(read_node(context, scope, node));
  return read_outputs(context, scope, text);
}

Result<std::shared_ptr<Graph>> read_subgraph(ImportContext& context, Scope& outer,
                                             Message message) {
  if (outer.depth() >= kMaxSubgraphDepth)
    return fail(ErrorCode::kResourceLimit, "subgraphs nested more than {} deep", kMaxSubgraphDepth);
  auto graph = std::make_shared<Graph>();
  GraphBuild build{.graph = *graph, .defined = {}, .outer = &outer.build()};
  Scope scope(build, &outer);
  CTXGEN_CHECK(read_graph(context, scope, message, false));
  return graph;
}

}  // namespace ctxgen
