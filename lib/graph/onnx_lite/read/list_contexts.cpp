#include "ctxgen/onnx_lite/list_contexts.h"

#include <cstdint>
#include <format>
#include <span>
#include <string_view>

#include "ctxgen/onnx_lite/read_model.h"

#include "read/entry_reader.h"
#include "read/import_context.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {
namespace {

/// AttributeProto.AttributeType
constexpr std::int64_t kIntType = 2, kStringType = 3;

/// The parts of an AttributeProto that matter here.
struct AttributeFields {
  std::string_view name;
  std::int64_t type = 0;
  std::int64_t number = 0;
  std::span<const std::byte> text;
  std::vector<Message> graphs;
};

Result<AttributeFields> split_attribute(Message message) {
  AttributeFields fields;
  MessageReader reader(message, "attribute");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(field::attribute::kName): fields.name = f->text(); break;
      case wire::varint(field::attribute::kType): fields.type = f->integer(); break;
      case wire::varint(field::attribute::kInt): fields.number = f->integer(); break;
      case wire::bytes(field::attribute::kString): fields.text = f->body; break;
      case wire::bytes(field::attribute::kGraph):
      case wire::bytes(field::attribute::kGraphs): fields.graphs.push_back(f->body); break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  return fields;
}

class Lister {
 public:
  explicit Lister(const Blob& source) : source_(source) {}

  Result<ListedContexts> list() {
    MessageReader reader(source_.bytes, "model");
    bool has_graph = false;
    while (const wire::Field* f = reader.next()) {
      if (f->tag == wire::bytes(field::model::kMetadata)) {
        const auto [key, value] = CTXGEN_TRY(read_entry(f->body, "metadata_props"));
        result_.metadata.emplace_back(key, value);
      }
      if (f->tag != wire::bytes(field::model::kGraph)) continue;
      has_graph = true;
      CTXGEN_CHECK(graph(f->body, 0));
    }
    CTXGEN_CHECK(reader.status());
    if (!has_graph) return fail(ErrorCode::kInvalidGraph, "no graph: this is not an ONNX model");
    return std::move(result_);
  }

 private:
  Status graph(Message message, std::uint64_t depth) {
    if (depth > kMaxSubgraphDepth)
      return fail(ErrorCode::kResourceLimit, "graphs nested more than {} deep", kMaxSubgraphDepth);
    MessageReader reader(message, "graph");
    while (const wire::Field* f = reader.next())
      if (f->tag == wire::bytes(field::graph::kNode)) CTXGEN_CHECK(node(f->body, depth));
    return reader.status();
  }

  Status node(Message message, std::uint64_t depth) {
    std::string_view name, op_type, domain;
    attributes_.clear();
    MessageReader reader(message, "node");
    while (const wire::Field* f = reader.next()) {
      if (f->tag == wire::bytes(field::node::kName)) name = f->text();
      if (f->tag == wire::bytes(field::node::kOpType)) op_type = f->text();
      if (f->tag == wire::bytes(field::node::kDomain)) domain = f->text();
      if (f->tag == wire::bytes(field::node::kAttribute)) attributes_.push_back(f->body);
    }
    CTXGEN_CHECK(reader.status());
    if (op_type == kEpContextOpType && domain == kMicrosoftDomain) return context(name);
    const std::vector<Message> attributes = attributes_;  // graph() comes here again
    for (const Message attribute : attributes)
      for (const Message body : CTXGEN_TRY(split_attribute(attribute)).graphs)
        CTXGEN_CHECK(graph(body, depth + 1));
    return {};
  }

  Status context(std::string_view name) {
    ListedContext context;
    context.where = std::format("node \"{}\" ({})", name, kEpContextOpType);
    std::span<const std::byte> cache;
    for (const Message message : attributes_) {
      const AttributeFields fields = CTXGEN_TRY(split_attribute(message));
      if (fields.name == "ep_cache_context") {
        CTXGEN_CHECK(check_kind(context, fields, kStringType));
        cache = fields.text;
      }
      if (fields.name == "source") {
        CTXGEN_CHECK(check_kind(context, fields, kStringType));
        context.attributes.source = as_text(fields.text);
      }
      if (fields.name == "partition_name") context.attributes.partition_name = as_text(fields.text);
      if (fields.name == "notes") context.attributes.notes = as_text(fields.text);
      if (fields.name == "main_context")
        CTXGEN_CHECK(flag(context, fields, context.attributes.main_context));
      if (fields.name == "embed_mode")
        CTXGEN_CHECK(flag(context, fields, context.attributes.embed_mode));
    }
    if (context.attributes.embed_mode == 1)
      context.payload = {source_.owner, cache};
    else
      context.attributes.ep_cache_context = as_text(cache);
    result_.nodes.push_back(std::move(context));
    return {};
  }

  /// `type` was not written by early tools.
  static Status check_kind(const ListedContext& context, const AttributeFields& fields,
                           std::int64_t wanted) {
    if (fields.type == wanted || fields.type == 0) return {};
    return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is of another type", context.where,
                fields.name);
  }

  static Status flag(const ListedContext& context, const AttributeFields& fields,
                     std::int64_t& value) {
    CTXGEN_CHECK(check_kind(context, fields, kIntType));
    if (fields.number != 0 && fields.number != 1)
      return fail(ErrorCode::kInvalidGraph, "{}: attribute \"{}\" is not 0 or 1", context.where,
                  fields.name);
    value = fields.number;
    return {};
  }

  const Blob& source_;
  ListedContexts result_;
  std::vector<Message> attributes_;  // of the node being read
};

}  // namespace

Result<ListedContexts> list_contexts(const Blob& source) {
  if (source.bytes.empty()) return fail(ErrorCode::kInvalidGraph, "model: it is empty");
  return Lister(source).list();
}

}  // namespace ctxgen
