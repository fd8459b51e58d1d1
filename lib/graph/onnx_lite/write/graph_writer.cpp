#include "write/graph_writer.h"

#include <algorithm>

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"
#include "write/initializer_fields.h"

namespace ctxgen {

namespace fg = field::graph;

namespace {

bool is_written_anew(std::uint32_t graph_field) {
  return graph_field == fg::kNode || graph_field == fg::kInitializer ||
         graph_field == fg::kSparseInitializer || graph_field == fg::kInput ||
         graph_field == fg::kOutput || graph_field == fg::kValueInfo;
}

bool is_graph(const wire::Field& f) {
  return f.tag == wire::bytes(field::attribute::kGraph) ||
         f.tag == wire::bytes(field::attribute::kGraphs);
}

}  // namespace

bool GraphWriter::body_changes(const Attribute& attribute) const {
  return std::ranges::any_of(attribute.graphs, [this](const auto& body) {
    return std::ranges::find(rewrite_.bodies, body.get(), &BodyRewrite::graph) !=
           rewrite_.bodies.end();
  });
}

/// The NodeProto as it stood, but for inputs if it is rewired, and attributes whose graphs change.
Result<Pieces> GraphWriter::changed_node(const Node& node, bool rewired) {
  Pieces out;
  for (std::size_t i = 0; rewired && i < node.inputs.size(); ++i)
    out.text_field(field::node::kInput,
                   node.inputs[i].valid() ? graph_.value(node.inputs[i]).name : std::string_view());
  MessageReader reader(model_.bytes(node.source), "node");
  while (const wire::Field* f = reader.next()) {
    if (rewired && f->tag == wire::bytes(field::node::kInput)) continue;
    const auto attribute = std::ranges::find_if(node.attributes, [&](const Attribute& a) {
      return f->tag == wire::bytes(field::node::kAttribute) && !a.source.empty() &&
             model_.bytes(a.source).data() == f->body.data() && body_changes(a);
    });
    if (attribute == node.attributes.end())
      CTXGEN_CHECK(encoder_.relocator().copy_whole(Relocator::Kind::kNode, f->whole, out));
    else
      out.message_field(field::node::kAttribute, CTXGEN_TRY(attribute_with_bodies(*attribute)));
  }
  CTXGEN_CHECK(reader.status());
  return out;
}

Result<Pieces> GraphWriter::attribute_with_bodies(const Attribute& attribute) {
  Pieces out;
  std::size_t index = 0;
  MessageReader reader(model_.bytes(attribute.source), "attribute");
  while (const wire::Field* f = reader.next()) {
    if (!is_graph(*f)) {
      out.fields(f->whole);
      continue;
    }
    if (index == attribute.graphs.size())
      return fail(ErrorCode::kInvalidGraph,
                  "attribute \"{}\": more graphs than the {} that were read", attribute.name,
                  attribute.graphs.size());
    CTXGEN_CHECK(add_body(f->field_number(), *attribute.graphs[index++], f->body, out));
  }
  CTXGEN_CHECK(reader.status());
  return out;
}

Status GraphWriter::add_body(std::uint32_t number, const Graph& body,
                             std::span<const std::byte> text, Pieces& out) {
  const auto changed = std::ranges::find(rewrite_.bodies, &body, &BodyRewrite::graph);
  if (changed == rewrite_.bodies.end())
    return encoder_.relocator().copy_field(number, Relocator::Kind::kGraph, text, out);
  Pieces content;
  MessageReader reader(text, "graph");
  while (const wire::Field* f = reader.next())
    if (!is_written_anew(f->field_number())) content.fields(f->whole);
  CTXGEN_CHECK(reader.status());
  GraphWriter writer(model_, body, changed->rewrite, encoder_);
  CTXGEN_CHECK(writer.add_nodes(content));
  CTXGEN_CHECK(writer.add_values(nullptr, 0, content));
  out.message_field(number, std::move(content));
  return {};
}

Status GraphWriter::add_node(const NodeToWrite& what, Pieces& out) {
  if (what.kind == NodeToWrite::Kind::kEpContext) {
    out.message_field(fg::kNode,
                      encoder_.ep_context(graph_, rewrite_.ep_contexts.at(what.ep_context)));
    return {};
  }
  SourceRange source;
  if (what.kind == NodeToWrite::Kind::kCall)
    source = graph_.calls()[static_cast<std::size_t>(what.call)].source;
  else
    source = graph_.node(what.node).source;
  if (what.kind == NodeToWrite::Kind::kNode && !source.empty()) {
    const Node& node = graph_.node(what.node);
    const bool changes = std::ranges::any_of(
        node.attributes, [this](const Attribute& a) { return body_changes(a); });
    if (what.rewired || changes) {
      out.message_field(fg::kNode, CTXGEN_TRY(changed_node(node, what.rewired)));
      return {};
    }
  }
  if (!source.empty())
    return encoder_.relocator().copy_field(fg::kNode, Relocator::Kind::kNode, model_.bytes(source),
                                           out);
  out.message_field(fg::kNode, CTXGEN_TRY(encoder_.node(graph_, graph_.node(what.node))));
  return {};
}

Status GraphWriter::add_initializer(ValueId id, const ModelRewrite* main,
                                    std::uint64_t graph_offset, Pieces& out) {
  const Value& value = graph_.value(id);
  if (main != nullptr && main->external.contains(id)) {
    out.message_field(
        fg::kInitializer,
        CTXGEN_TRY(external_tensor(model_, value, main->external_location, main->external.at(id))));
    return {};
  }
  if (value.initializer_source().empty()) {
    out.message_field(fg::kInitializer, Encoder::tensor(*value.initializer, value.name));
    return {};
  }
  if (main != nullptr && is_aligned_when_written(value)) {
    auto tensor = CTXGEN_TRY(aligned_tensor(model_, value, graph_offset + out.size()));
    if (tensor) {
      out.wide_message_field(fg::kInitializer, std::move(*tensor));
      return {};
    }
  }
  return encoder_.relocator().copy_field(
      value.is_sparse ? fg::kSparseInitializer : fg::kInitializer,
      value.is_sparse ? Relocator::Kind::kSparseTensor : Relocator::Kind::kTensor,
      model_.bytes(value.initializer_source()), out);
}

Status GraphWriter::add_info(std::uint32_t number, SourceRange source, const Value& value,
                             Pieces& out) {
  if (source.empty())
    out.message_field(number, encoder_.value_info(value.name, value.type));
  else if (value.type_changed)
    out.message_field(number, CTXGEN_TRY(encoder_.retyped(source, value)));
  else
    out.bytes_field(number, model_.bytes(source));
  return {};
}

Status GraphWriter::add_interface(Pieces& out) {
  for (const ValueId id : rewrite_.inputs)
    CTXGEN_CHECK(add_info(fg::kInput, graph_.value(id).input_source(), graph_.value(id), out));
  for (const ValueId id : graph_.outputs) {
    // Programs bind by type, so what a partition makes is written as it is; inference may be wrong
    // about what other nodes make.
    const Value& value = graph_.value(id);
    const bool made_by_program =
        value.type_contradicts && std::ranges::any_of(rewrite_.ep_contexts, [id](const auto& node) {
          return std::ranges::find(node.outputs, id) != node.outputs.end();
        });
    if (made_by_program && !value.output_source().empty())
      out.message_field(fg::kOutput, CTXGEN_TRY(encoder_.retyped(value.output_source(), value)));
    else
      CTXGEN_CHECK(add_info(fg::kOutput, value.output_source(), value, out));
  }
  return {};
}

Status GraphWriter::add_value_infos(Pieces& out) {
  for (const ValueId id : rewrite_.value_infos) {
    const Value& value = graph_.value(id);
    const bool told_elsewhere = value.is_input || value.is_output;
    if (value.info_source().empty() && told_elsewhere) continue;
    if (value.info_source().empty() && value.type.kind == ValueType::Kind::kUnknown)
      return fail(ErrorCode::kInvalidGraph, "value \"{}\": its type is not known", value.name);
    CTXGEN_CHECK(add_info(fg::kValueInfo, value.info_source(), value, out));
  }
  return {};
}

Status GraphWriter::add_nodes(Pieces& out) {
  for (const NodeToWrite& what : rewrite_.nodes) CTXGEN_CHECK(add_node(what, out));
  return {};
}

Status GraphWriter::add_values(const ModelRewrite* main, std::uint64_t graph_offset, Pieces& out) {
  for (const ValueId id : rewrite_.initializers)
    CTXGEN_CHECK(add_initializer(id, main, graph_offset, out));
  CTXGEN_CHECK(add_interface(out));
  return add_value_infos(out);
}

}  // namespace ctxgen
