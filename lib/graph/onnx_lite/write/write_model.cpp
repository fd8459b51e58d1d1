#include "ctxgen/onnx_lite/write_model.h"

#include <algorithm>
#include <format>
#include <map>
#include <tuple>

#include "content/content_walk.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"
#include "write/encode.h"
#include "write/graph_writer.h"
#include "write/initializer_fields.h"

namespace ctxgen {

namespace fm = field::model;

namespace {

class ModelWriter {
 public:
  ModelWriter(const Model& model, const ModelRewrite& rewrite)
      : model_(model), rewrite_(rewrite), encoder_(model) {
    for (const auto& [location, bytes] : rewrite.external_buffers)
      encoder_.relocator().add_buffer(location, bytes);
  }

  Result<Pieces> build();

 private:
  Status add_header(Pieces& out);
  void add_opsets(Pieces& out);
  Status add_metadata(Pieces& out);

  const Model& model_;
  const ModelRewrite& rewrite_;
  Encoder encoder_;
};

Status ModelWriter::add_header(Pieces& out) {
  for (const SourceRange range : model_.header_sources) {
    MessageReader reader(model_.bytes(range), "model");
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
  for (const OpsetImport& import : model_.implied_opsets) add(import.domain, import.version);
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
    // Another library writes a length as short as can be: so this one says that none has been here.
    if (entry.first == kContentHashKey)
      out.wide_message_field(fm::kMetadata, std::move(encoded));
    else
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
  GraphWriter writer(model_, model_.graph, rewrite_, encoder_);
  Pieces graph;
  for (const SourceRange range : model_.graph_other_sources) graph.fields(model_.bytes(range));
  CTXGEN_CHECK(writer.add_nodes(graph));
  add_opsets(out);  // after the nodes: encoded ones may need more
  CTXGEN_CHECK(writer.add_values(&rewrite_, out.size() + 1 + Pieces::kWideBytes, graph));
  if (std::ranges::any_of(rewrite_.initializers, [this](ValueId id) {
        return !rewrite_.external.contains(id) && is_aligned_when_written(model_.graph.value(id));
      }))
    out.wide_message_field(fm::kGraph, std::move(graph));
  else
    out.message_field(fm::kGraph, std::move(graph));
  CTXGEN_CHECK(add_metadata(out));
  for (const std::size_t index : rewrite_.functions)
    CTXGEN_CHECK(encoder_.relocator().copy_field(fm::kFunctions, Relocator::Kind::kFunction,
                                                 model_.bytes(model_.functions.at(index).source),
                                                 out));
  return out;
}

}  // namespace

Result<std::uint64_t> model_size(const Model& model, const ModelRewrite& rewrite) {
  return CTXGEN_TRY(ModelWriter(model, rewrite).build()).size();
}

Result<Hash128> content_hash(const Model& model, const ModelRewrite& rewrite) {
  const Pieces pieces = CTXGEN_TRY(ModelWriter(model, rewrite).build());
  Rope rope;
  CTXGEN_CHECK(pieces.write([&rope](std::span<const std::byte> run) -> Status {
    rope.add(run);
    return {};
  }));
  // Initializers that a caller puts into one place have one content there, that of the first.
  std::map<std::tuple<std::string_view, std::uint64_t, std::uint64_t>, std::uint32_t> places;
  for (const auto& [id, place] : rewrite.external) {
    const std::string_view location =
        place.location.empty() ? rewrite.external_location : place.location;
    const auto [known, added] =
        places.try_emplace({location, place.offset, place.length}, id.index);
    if (!added) known->second = std::min(known->second, id.index);
  }
  const ExternalBytes external =
      [&](const ExternalDataRef& ref, std::uint64_t size,
          std::string_view tensor) -> Result<std::span<const std::byte>> {
    const auto found = places.find({ref.location, ref.offset, size});
    if (found == places.end())
      return fail(ErrorCode::kInternal, "tensor \"{}\": no initializer goes to {} of \"{}\"",
                  tensor, ref.offset, ref.location);
    return model.graph.value(ValueId{found->second}).initializer->bytes();
  };
  return ContentWalk(rope, external).model(rope.whole());
}

Status check_model_size(std::uint64_t size, std::uint64_t embedded) {
  if (size <= kMaxModelBytes) return {};
  if (size - std::min(size, embedded) <= kMaxModelBytes)
    return fail(
        ErrorCode::kResourceLimit,
        "the model would have {} bytes, {} of them an embedded context binary, protobuf's "
        "limit is {}: write the context binary to a file of its own instead of embedding it",
        size, embedded, kMaxModelBytes);
  return fail(ErrorCode::kResourceLimit,
              "the model would have {} bytes, protobuf's limit is {}: move the weights that stay "
              "in it to a file of external initializers",
              size, kMaxModelBytes);
}

Status write_model(const Model& model, const ModelRewrite& rewrite, const ModelSink& sink) {
  const Pieces pieces = CTXGEN_TRY(ModelWriter(model, rewrite).build());
  std::uint64_t embedded = 0;
  for (const EpContextNode& node : rewrite.ep_contexts) embedded += node.payload.bytes.size();
  CTXGEN_CHECK(check_model_size(pieces.size(), embedded));
  return pieces.write(sink);
}

GraphRewrite identity_rewrite(const Graph& graph) {
  GraphRewrite rewrite;
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
    if (graph.value(id).is_outer) continue;
    if (graph.value(id).initializer) rewrite.initializers.push_back(id);
    if (!graph.value(id).info_source().empty()) rewrite.value_infos.push_back(id);
  }
  const auto by_source = [&graph](SourceRange (Value::*source)() const) {
    return [&graph, source](ValueId id) { return (graph.value(id).*source)().offset; };
  };
  std::ranges::stable_sort(rewrite.initializers, {}, by_source(&Value::initializer_source));
  std::ranges::stable_sort(rewrite.value_infos, {}, by_source(&Value::info_source));
  return rewrite;
}

ModelRewrite identity_rewrite(const Model& model) {
  ModelRewrite rewrite;
  static_cast<GraphRewrite&>(rewrite) = identity_rewrite(model.graph);
  for (std::size_t i = 0; i < model.functions.size(); ++i) rewrite.functions.push_back(i);
  return rewrite;
}

}  // namespace ctxgen
