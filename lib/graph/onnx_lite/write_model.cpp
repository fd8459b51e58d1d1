#include "ctxgen/onnx_lite/write_model.h"

#include <algorithm>
#include <format>

#include "encode.h"
#include "initializer_fields.h"
#include "onnx_fields.h"
#include "wire.h"

namespace ctxgen {

namespace fm = field::model;
namespace fg = field::graph;

namespace {

// Protobuf's own limit on a message, which every reader of ONNX files shares.
constexpr std::uint64_t kMaxModelBytes = (std::uint64_t{1} << 31) - 1;

class ModelWriter {
 public:
  ModelWriter(const Model& model, const ModelRewrite& rewrite)
      : model_(model), graph_(model.graph), rewrite_(rewrite), encoder_(model) {}

  Result<Pieces> build();

 private:
  Status add_node(const NodeToWrite& what, Pieces& out);
  Status add_initializer(ValueId id, Pieces& out);
  Status add_interface(Pieces& out);
  Status add_value_infos(Pieces& out);
  Status add_info(std::uint32_t number, SourceRange source, const Value& value, Pieces& out);
  Result<Pieces> build_nodes();
  Result<Pieces> build_graph(Pieces nodes);
  Status add_header(Pieces& out);
  void add_opsets(Pieces& out);
  Status add_metadata(Pieces& out);

  const Model& model_;
  const Graph& graph_;
  const ModelRewrite& rewrite_;
  Encoder encoder_;
  std::uint64_t graph_offset_ = 0;  // of the graph's first byte in the file
};

Status ModelWriter::add_node(const NodeToWrite& what, Pieces& out) {
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
  if (!source.empty())
    return encoder_.relocator().copy_field(fg::kNode, Relocator::Kind::kNode,
                                           model_.bytes(source), out);
  out.message_field(fg::kNode, CTXGEN_TRY(encoder_.node(graph_, graph_.node(what.node))));
  return {};
}

Status ModelWriter::add_initializer(ValueId id, Pieces& out) {
  const Value& value = graph_.value(id);
  if (const auto place = rewrite_.external.find(id); place != rewrite_.external.end()) {
    out.message_field(fg::kInitializer,
                      CTXGEN_TRY(external_tensor(model_, value, rewrite_.external_location,
                                                 place->second)));
    return {};
  }
  if (value.initializer_source.empty()) {
    out.message_field(fg::kInitializer, Encoder::tensor(*value.initializer, value.name));
    return {};
  }
  if (is_aligned_when_written(value)) {
    auto tensor = CTXGEN_TRY(aligned_tensor(model_, value, graph_offset_ + out.size()));
    if (tensor) {
      out.wide_message_field(fg::kInitializer, std::move(*tensor));
      return {};
    }
  }
  return encoder_.relocator().copy_field(
      value.is_sparse ? fg::kSparseInitializer : fg::kInitializer,
      value.is_sparse ? Relocator::Kind::kSparseTensor : Relocator::Kind::kTensor,
      model_.bytes(value.initializer_source), out);
}

Status ModelWriter::add_info(std::uint32_t number, SourceRange source, const Value& value,
                             Pieces& out) {
  if (source.empty())
    out.message_field(number, encoder_.value_info(value.name, value.type));
  else if (value.type_changed)
    out.message_field(number, CTXGEN_TRY(encoder_.retyped(source, value)));
  else
    out.bytes_field(number, model_.bytes(source));
  return {};
}

Status ModelWriter::add_interface(Pieces& out) {
  for (const ValueId id : rewrite_.inputs)
    CTXGEN_CHECK(add_info(fg::kInput, graph_.value(id).input_source, graph_.value(id), out));
  for (const ValueId id : graph_.outputs) {
    // Programs bind by type, so what a partition makes is written as it is; inference may be wrong
    // about what other nodes make.
    const Value& value = graph_.value(id);
    const bool made_by_program =
        value.type_contradicts && std::ranges::any_of(rewrite_.ep_contexts, [id](const auto& node) {
          return std::ranges::find(node.outputs, id) != node.outputs.end();
        });
    if (made_by_program && !value.output_source.empty())
      out.message_field(fg::kOutput, CTXGEN_TRY(encoder_.retyped(value.output_source, value)));
    else
      CTXGEN_CHECK(add_info(fg::kOutput, value.output_source, value, out));
  }
  return {};
}

Status ModelWriter::add_value_infos(Pieces& out) {
  for (const ValueId id : rewrite_.value_infos) {
    const Value& value = graph_.value(id);
    const bool told_elsewhere = value.is_input || value.is_output;
    if (value.info_source.empty() && told_elsewhere) continue;
    if (value.info_source.empty() && value.type.kind == ValueType::Kind::kUnknown)
      return fail(ErrorCode::kInvalidGraph, "value \"{}\": its type is not known", value.name);
    CTXGEN_CHECK(add_info(fg::kValueInfo, value.info_source, value, out));
  }
  return {};
}

Result<Pieces> ModelWriter::build_nodes() {
  Pieces out;
  for (const SourceRange range : model_.graph_other_sources) out.fields(model_.bytes(range));
  for (const NodeToWrite& what : rewrite_.nodes) CTXGEN_CHECK(add_node(what, out));
  return out;
}

Result<Pieces> ModelWriter::build_graph(Pieces out) {
  for (const ValueId id : rewrite_.initializers)
    CTXGEN_CHECK(add_initializer(id, out));
  CTXGEN_CHECK(add_interface(out));
  CTXGEN_CHECK(add_value_infos(out));
  return out;
}

Status ModelWriter::add_header(Pieces& out) {
  for (const SourceRange range : model_.header_sources) {
    wire::Reader reader(model_.bytes(range), "model");
    while (const wire::Field* f = reader.next()) {
      if (f->tag == wire::bytes(fm::kTraining))
        CTXGEN_CHECK(encoder_.relocator().copy_field(fm::kTraining, Relocator::Kind::kTraining,
                                                     f->body, out));
      else
        out.fields(f->whole);
    }
    CTXGEN_CHECK(reader.status());
  }
  return {};
}

void ModelWriter::add_opsets(Pieces& out) {
  const auto add = [&out](std::string_view domain, std::int64_t version) {
    Pieces import;
    import.text_field(field::opset::kDomain, domain);
    import.varint_field(field::opset::kVersion, static_cast<std::uint64_t>(version));
    out.message_field(fm::kOpsetImport, std::move(import));
  };
  for (const SourceRange range : model_.opset_sources)
    out.bytes_field(fm::kOpsetImport, model_.bytes(range));
  bool has_microsoft = model_.opset(kMicrosoftDomain).has_value();
  for (const OpsetImport& import : encoder_.needed_opsets()) {
    add(import.domain, import.version);
    has_microsoft = has_microsoft || import.domain == kMicrosoftDomain;
  }
  if (rewrite_.needs_microsoft_opset && !has_microsoft) add(kMicrosoftDomain, 1);
}

Status ModelWriter::add_metadata(Pieces& out) {
  const auto add = [&out](const std::pair<std::string, std::string>& entry) {
    Pieces encoded;
    encoded.text_field(field::entry::kKey, entry.first);
    encoded.text_field(field::entry::kValue, entry.second);
    out.message_field(fm::kMetadata, std::move(encoded));
  };
  std::vector<bool> replaced(rewrite_.metadata.size());
  for (std::size_t i = 0; i < model_.metadata_sources.size(); ++i) {
    const auto found = std::ranges::find(rewrite_.metadata, model_.metadata.at(i).first,
                                         &std::pair<std::string, std::string>::first);
    if (found == rewrite_.metadata.end()) {
      out.bytes_field(fm::kMetadata, model_.bytes(model_.metadata_sources[i]));
      continue;
    }
    // A key that the file has twice is written once.
    const auto index = static_cast<std::size_t>(found - rewrite_.metadata.begin());
    if (!replaced[index]) add(*found);
    replaced[index] = true;
  }
  for (std::size_t i = 0; i < rewrite_.metadata.size(); ++i)
    if (!replaced[i]) add(rewrite_.metadata[i]);
  return {};
}

Result<Pieces> ModelWriter::build() {
  Pieces out;
  CTXGEN_CHECK(add_header(out));
  Pieces nodes = CTXGEN_TRY(build_nodes());
  add_opsets(out);  // after the nodes: encoded ones may need more
  graph_offset_ = out.size() + 1 + Pieces::kWideBytes;
  Pieces graph = CTXGEN_TRY(build_graph(std::move(nodes)));
  if (std::ranges::any_of(rewrite_.initializers, [this](ValueId id) {
        return !rewrite_.external.contains(id) && is_aligned_when_written(graph_.value(id));
      }))
    out.wide_message_field(fm::kGraph, std::move(graph));
  else
    out.message_field(fm::kGraph, std::move(graph));
  CTXGEN_CHECK(add_metadata(out));
  for (const std::size_t index : rewrite_.functions)
    CTXGEN_CHECK(encoder_.relocator().copy_field(
        fm::kFunctions, Relocator::Kind::kFunction,
        model_.bytes(model_.functions.at(index).source), out));
  return out;
}

}  // namespace

Result<std::uint64_t> model_size(const Model& model, const ModelRewrite& rewrite) {
  return CTXGEN_TRY(ModelWriter(model, rewrite).build()).size();
}

Status write_model(const Model& model, const ModelRewrite& rewrite, const ModelSink& sink) {
  const Pieces pieces = CTXGEN_TRY(ModelWriter(model, rewrite).build());
  if (pieces.size() > kMaxModelBytes)
    return fail(ErrorCode::kResourceLimit,
                "the model would have {} bytes, protobuf's limit is {}: move the weights that stay "
                "in it to a file of their own with --external-initializers",
                pieces.size(), kMaxModelBytes);
  return pieces.write(sink);
}

ModelRewrite identity_rewrite(const Model& model) {
  ModelRewrite rewrite;
  const Graph& graph = model.graph;
  std::vector<bool> call_written(graph.calls().size());
  const auto add_call = [&](std::size_t call) {
    if (!call_written[call])
      rewrite.nodes.push_back(
          {.kind = NodeToWrite::Kind::kCall, .node = {}, .call = static_cast<std::int32_t>(call)});
    call_written[call] = true;
  };
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const NodeId id{i};
    if (graph.node(id).call >= 0)
      add_call(static_cast<std::size_t>(graph.node(id).call));
    else
      rewrite.nodes.push_back({.kind = NodeToWrite::Kind::kNode, .node = id});
  }
  for (std::size_t call = 0; call < call_written.size(); ++call) add_call(call);  // empty bodies
  rewrite.inputs = graph.inputs;
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const ValueId id{i};
    if (graph.value(id).initializer) rewrite.initializers.push_back(id);
    if (!graph.value(id).info_source.empty()) rewrite.value_infos.push_back(id);
  }
  const auto by_source = [&graph](SourceRange Value::* source) {
    return [&graph, source](ValueId id) { return (graph.value(id).*source).offset; };
  };
  std::ranges::stable_sort(rewrite.initializers, {}, by_source(&Value::initializer_source));
  std::ranges::stable_sort(rewrite.value_infos, {}, by_source(&Value::info_source));
  for (std::size_t i = 0; i < model.functions.size(); ++i) rewrite.functions.push_back(i);
  return rewrite;
}

}  // namespace ctxgen
