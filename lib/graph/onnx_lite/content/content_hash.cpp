#include "ctxgen/onnx_lite/content_hash.h"

#include <algorithm>
#include <forward_list>
#include <string>
#include <utility>

#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/ctxfile/magic.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "content/content_walk.h"
#include "read/entry_reader.h"
#include "read/import_context.h"
#include "wire/message_writer.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

std::uint64_t ContentWalk::Fields::count(std::uint32_t tag) const {
  std::uint64_t found = 0;
  for (std::size_t i = begin_; i < end_; ++i) found += walk_.fields_[i].tag == tag ? 1 : 0;
  return found;
}

RopeField ContentWalk::Fields::last(std::uint32_t tag) const {
  for (std::size_t i = end_; i > begin_; --i)
    if (walk_.fields_[i - 1].tag == tag) return walk_.fields_[i - 1];
  return {};
}

void ContentWalk::texts(const Fields& fields, std::uint32_t tag) {
  feed_.number(fields.count(tag));
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields.at(i).tag == tag) text(fields.at(i).body);
}

Result<Hash128> ContentWalk::model(RopeRange message) {
  namespace fm = field::model;
  const Status walked = open(message, [&](const Fields& fields) -> Status {
    feed_.number(fields.last(wire::varint(fm::kIrVersion)).number);
    CTXGEN_CHECK(opsets(fields, wire::bytes(fm::kOpsetImport)));
    CTXGEN_CHECK(graph(fields.last(wire::bytes(fm::kGraph)).body, 0));
    return list(fields, wire::bytes(fm::kFunctions),
                [&](RopeRange body) { return function(body); });
  });
  if (!walked) return std::unexpected(with_context(Error(walked.error()), "content hash"));
  return feed_.finish();
}

/// Sorted, each once: tools add imports at either end.
Status ContentWalk::opsets(const Fields& fields, std::uint32_t tag) {
  std::forward_list<std::string> copies;
  std::vector<std::pair<std::string_view, std::uint64_t>> imports;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields.at(i).tag != tag) continue;
    CTXGEN_CHECK(open(fields.at(i).body, [&](const Fields& import) -> Status {
      const RopeRange domain = import.last(wire::bytes(field::opset::kDomain)).body;
      imports.emplace_back(normalised_domain(as_text(rope_.bytes(domain, copies))),
                           import.last(wire::varint(field::opset::kVersion)).number);
      return {};
    }));
  }
  std::ranges::sort(imports);
  const auto repeated = std::ranges::unique(imports);
  imports.erase(repeated.begin(), repeated.end());
  feed_.number(imports.size());
  for (const auto& [domain, version] : imports) {
    feed_.text(domain);
    feed_.number(version);
  }
  return {};
}

Status ContentWalk::function(RopeRange message) {
  namespace ff = field::function;
  return open(message, [&](const Fields& fields) -> Status {
    std::forward_list<std::string> copies;
    const RopeRange domain = fields.last(wire::bytes(ff::kDomain)).body;
    feed_.text(normalised_domain(as_text(rope_.bytes(domain, copies))));
    text(fields.last(wire::bytes(ff::kName)).body);
    text(fields.last(wire::bytes(ff::kOverload)).body);
    texts(fields, wire::bytes(ff::kInput));
    texts(fields, wire::bytes(ff::kOutput));
    texts(fields, wire::bytes(ff::kAttribute));
    CTXGEN_CHECK(attributes(fields, wire::bytes(ff::kAttributeProto), 0, false));
    CTXGEN_CHECK(opsets(fields, wire::bytes(ff::kOpsetImport)));
    return list(fields, wire::bytes(ff::kNode), [&](RopeRange body) { return node(body, 0); });
  });
}

Status ContentWalk::graph(RopeRange message, std::uint64_t depth) {
  namespace fg = field::graph;
  if (depth > kMaxSubgraphDepth)
    return fail(ErrorCode::kResourceLimit, "subgraphs nested more than {} deep", kMaxSubgraphDepth);
  return open(message, [&](const Fields& fields) -> Status {
    const auto info = [&](RopeRange body) { return value_info(body); };
    CTXGEN_CHECK(list(fields, wire::bytes(fg::kInput), info));
    CTXGEN_CHECK(list(fields, wire::bytes(fg::kOutput), info));
    CTXGEN_CHECK(list(fields, wire::bytes(fg::kInitializer),
                      [&](RopeRange body) { return tensor(body, true); }));
    CTXGEN_CHECK(list(fields, wire::bytes(fg::kSparseInitializer),
                      [&](RopeRange body) { return sparse_tensor(body, true); }));
    return list(fields, wire::bytes(fg::kNode), [&](RopeRange body) { return node(body, depth); });
  });
}

Status ContentWalk::node(RopeRange message, std::uint64_t depth) {
  namespace fn = field::node;
  return open(message, [&](const Fields& fields) -> Status {
    std::forward_list<std::string> copies;
    const auto of = [&](std::uint32_t number) {
      return as_text(rope_.bytes(fields.last(wire::bytes(number)).body, copies));
    };
    const std::string_view op_type = of(fn::kOpType), domain = normalised_domain(of(fn::kDomain));
    feed_.text(op_type);
    feed_.text(domain);
    text(fields.last(wire::bytes(fn::kOverload)).body);
    texts(fields, wire::bytes(fn::kInput));
    texts(fields, wire::bytes(fn::kOutput));
    return attributes(fields, wire::bytes(fn::kAttribute), depth,
                      op_type == kEpContextOpType && domain == kMicrosoftDomain);
  });
}

/// By name: their order means nothing.
Status ContentWalk::attributes(const Fields& fields, std::uint32_t tag, std::uint64_t depth,
                               bool of_context) {
  std::forward_list<std::string> copies;
  std::vector<std::pair<std::string_view, RopeRange>> by_name;
  by_name.reserve(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields.at(i).tag != tag) continue;
    RopeReader reader(rope_, fields.at(i).body);
    RopeRange name;
    for (RopeField field; reader.next(field);)
      if (field.tag == wire::bytes(field::attribute::kName)) name = field.body;
    CTXGEN_CHECK(reader.status());
    by_name.emplace_back(as_text(rope_.bytes(name, copies)), fields.at(i).body);
  }
  std::ranges::stable_sort(by_name, {}, &std::pair<std::string_view, RopeRange>::first);
  feed_.number(by_name.size());
  for (const auto& [name, body] : by_name) {
    feed_.text(name);
    CTXGEN_CHECK(attribute(body, depth, of_context && name == "ep_cache_context"));
  }
  return {};
}

Status ContentWalk::attribute(RopeRange message, std::uint64_t depth, bool of_context) {
  namespace fa = field::attribute;
  return open(message, [&](const Fields& fields) -> Status {
    std::uint64_t kind = fields.last(wire::varint(fa::kType)).number;
    for (std::size_t i = fields.size(); i > 0 && kind == 0; --i)
      kind = static_cast<std::uint64_t>(kind_by_field(fields.at(i - 1).tag >> 3));
    const RopeRange reference = fields.last(wire::bytes(fa::kRefName)).body;
    text(reference);
    feed_.number(kind);
    if (!reference.empty()) return {};  // its value is that of the call's attribute
    if (of_context && kind == static_cast<std::uint64_t>(AttributeKind::kString))
      return context_text(fields.last(wire::bytes(fa::kString)).body);
    return attribute_value(fields, kind, depth);
  });
}

/// A context binary has hashes of its own and may be large: its size is enough here.
Status ContentWalk::context_text(RopeRange value) {
  std::forward_list<std::string> copies;
  const RopeRange front{value.begin,
                        value.begin + std::min<std::uint64_t>(value.size(), kContextMagic.size())};
  if (as_text(rope_.bytes(front, copies)) == kContextMagic)
    feed_.number(value.size());
  else
    text(value);
  return {};
}

Status ContentWalk::attribute_value(const Fields& fields, std::uint64_t kind, std::uint64_t depth) {
  namespace fa = field::attribute;
  const auto body = [&](RopeRange one) { return graph(one, depth + 1); };
  const auto plain = [&](RopeRange one) { return tensor(one, false); };
  const auto sparse = [&](RopeRange one) { return sparse_tensor(one, false); };
  const auto of_type = [&](RopeRange one) { return type(one, 0); };
  const auto last = [&](std::uint32_t number) { return fields.last(wire::bytes(number)).body; };
  switch (static_cast<AttributeKind>(kind)) {
    case AttributeKind::kUndefined: break;
    case AttributeKind::kFloat: feed_.number(fields.last(wire::fixed32(fa::kFloat)).number); break;
    case AttributeKind::kInt: feed_.number(fields.last(wire::varint(fa::kInt)).number); break;
    case AttributeKind::kString: text(last(fa::kString)); break;
    case AttributeKind::kTensor: return plain(last(fa::kTensor));
    case AttributeKind::kGraph: return body(last(fa::kGraph));
    case AttributeKind::kFloats: return numbers(fields, fa::kFloats, wire::Type::kFixed32);
    case AttributeKind::kInts: return numbers(fields, fa::kInts, wire::Type::kVarint);
    case AttributeKind::kStrings: texts(fields, wire::bytes(fa::kStrings)); break;
    case AttributeKind::kTensors: return list(fields, wire::bytes(fa::kTensors), plain);
    case AttributeKind::kGraphs: return list(fields, wire::bytes(fa::kGraphs), body);
    case AttributeKind::kSparseTensor: return sparse(last(fa::kSparseTensor));
    case AttributeKind::kSparseTensors:
      return list(fields, wire::bytes(fa::kSparseTensors), sparse);
    case AttributeKind::kType: return of_type(last(fa::kTypeProto));
    case AttributeKind::kTypes: return list(fields, wire::bytes(fa::kTypeProtos), of_type);
    default: return fail(ErrorCode::kUnsupported, "attribute type {} is not known", kind);
  }
  return {};
}

Result<Hash128> content_hash(std::span<const std::byte> model, const ExternalBytes& external) {
  Rope rope;
  rope.add(model);
  return ContentWalk(rope, external).model(rope.whole());
}

Result<std::optional<RecordedContent>> recorded_content(std::span<const std::byte> model) {
  std::optional<RecordedContent> found;
  MessageReader reader(model, "model");
  while (const wire::Field* f = reader.next()) {
    if (f->tag != wire::bytes(field::model::kMetadata)) continue;
    const Entry entry = CTXGEN_TRY(read_entry(f->body, "metadata_props"));
    if (entry.key != kContentHashKey) continue;
    const std::size_t length_bytes = f->whole.size() - f->body.size() - wire::varint_size(f->tag);
    found = RecordedContent{std::string(entry.value), length_bytes == Pieces::kWideBytes};
  }
  CTXGEN_CHECK(reader.status());
  return found;
}

}  // namespace ctxgen
