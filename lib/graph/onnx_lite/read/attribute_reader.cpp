#include <cstring>
#include <deque>
#include <ranges>

#include "read/import_context.h"
#include "tensors/type_reader.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace fa = field::attribute;

namespace {

// The fields of an AttributeProto; messages inside are decoded once the attribute's type is known.
struct RawAttribute {
  Attribute attribute;
  std::int64_t type = 0;
  std::vector<Message> tensors, graphs, sparse_tensors, types;
  std::uint32_t last_value_field = 0;  // of models that do not write the type
};

Status append_packed(const wire::Field& f, std::vector<std::int64_t>& out) {
  for (std::span<const std::byte> rest = f.body; !rest.empty();) {
    const auto value = wire::take_varint(rest);
    if (!value) return fail(ErrorCode::kInvalidGraph, "malformed integers");
    out.push_back(static_cast<std::int64_t>(*value));
  }
  return {};
}

Status append_packed(const wire::Field& f, std::vector<float>& out) {
  if (f.body.size() % sizeof(float) != 0)
    return fail(ErrorCode::kInvalidGraph, "{} bytes of floats", f.body.size());
  const std::size_t old = out.size();
  out.resize(old + f.body.size() / sizeof(float));
  if (!f.body.empty()) std::memcpy(out.data() + old, f.body.data(), f.body.size());
  return {};
}

Status read_list_field(const wire::Field& f, RawAttribute& raw) {
  Attribute& a = raw.attribute;
  switch (f.tag) {
    case wire::fixed32(fa::kFloats): a.floats.push_back(f.real()); break;
    case wire::bytes(fa::kFloats): return append_packed(f, a.floats);
    case wire::varint(fa::kInts): a.ints.push_back(f.integer()); break;
    case wire::bytes(fa::kInts): return append_packed(f, a.ints);
    case wire::bytes(fa::kStrings): a.strings.emplace_back(f.text()); break;
    case wire::bytes(fa::kTensor): raw.tensors.assign(1, f.body); break;
    case wire::bytes(fa::kTensors): raw.tensors.push_back(f.body); break;
    case wire::bytes(fa::kGraph): raw.graphs.assign(1, f.body); break;
    case wire::bytes(fa::kGraphs): raw.graphs.push_back(f.body); break;
    case wire::bytes(fa::kSparseTensor): raw.sparse_tensors.assign(1, f.body); break;
    case wire::bytes(fa::kSparseTensors): raw.sparse_tensors.push_back(f.body); break;
    case wire::bytes(fa::kTypeProto): raw.types.assign(1, f.body); break;
    case wire::bytes(fa::kTypeProtos): raw.types.push_back(f.body); break;
    default: return {};
  }
  return {};
}

Result<RawAttribute> split(const ImportContext& context, Message message) {
  RawAttribute raw;
  Attribute& a = raw.attribute;
  MessageReader reader(message, "attribute");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(fa::kName): a.name = f->text(); break;
      case wire::bytes(fa::kRefName): a.ref_name = f->text(); break;
      case wire::varint(fa::kType): raw.type = f->integer(); break;
      case wire::fixed32(fa::kFloat): a.f = f->real(); break;
      case wire::varint(fa::kInt): a.i = f->integer(); break;
      case wire::bytes(fa::kString):
        a.s = f->text();
        a.s_source = context.range_of(f->body);
        break;
      default: CTXGEN_CHECK(read_list_field(*f, raw)); break;
    }
    if (kind_by_field(f->field_number()) != AttributeKind::kUndefined)
      raw.last_value_field = f->field_number();
  }
  CTXGEN_CHECK(reader.status());
  return raw;
}

Status set_kind(RawAttribute& raw) {
  if (raw.type < 0 || raw.type > static_cast<std::int64_t>(AttributeKind::kTypes))
    return fail(ErrorCode::kUnsupported, "attribute type {} is not known", raw.type);
  raw.attribute.kind =
      raw.type != 0 ? static_cast<AttributeKind>(raw.type) : kind_by_field(raw.last_value_field);
  const auto one = [&raw](AttributeKind kind, const std::vector<Message>& messages) {
    return raw.attribute.kind != kind || messages.size() == 1;
  };
  if (!one(AttributeKind::kTensor, raw.tensors) || !one(AttributeKind::kGraph, raw.graphs) ||
      !one(AttributeKind::kSparseTensor, raw.sparse_tensors) ||
      !one(AttributeKind::kType, raw.types))
    return fail(ErrorCode::kInvalidGraph, "its value is missing");
  return {};
}

Status decode_messages(ImportContext& context, Scope& scope, RawAttribute& raw) {
  Attribute& a = raw.attribute;
  for (const Message message : raw.tensors)
    a.tensors.push_back(CTXGEN_TRY(context.tensors.read(message)).tensor);
  for (const Message message : raw.sparse_tensors)
    a.tensors.push_back(CTXGEN_TRY(context.tensors.read_sparse(message)).tensor);
  for (const Message message : raw.types)
    a.types.push_back(CTXGEN_TRY(read_type(message, context.model)));
  for (const Message message : raw.graphs)
    a.graphs.push_back(CTXGEN_TRY(read_subgraph(context, scope, message)));
  return {};
}

Result<Attribute> read_value(ImportContext& context, Scope& scope, Message message) {
  auto raw = CTXGEN_TRY(split(context, message));
  CTXGEN_CHECK(context.count_items(1));
  if (raw.attribute.ref_name.empty()) {
    CTXGEN_CHECK(set_kind(raw));
    CTXGEN_CHECK(decode_messages(context, scope, raw));
  } else if (raw.type > 0 && raw.type <= static_cast<std::int64_t>(AttributeKind::kTypes)) {
    raw.attribute.kind = static_cast<AttributeKind>(raw.type);
  }
  // The text of subgraphs in an expanded body has other names than the graph.
  if (!scope.renames() || raw.graphs.empty()) raw.attribute.source = context.range_of(message);
  return std::move(raw.attribute);
}

const AttributeText* find_text(std::span<const AttributeText> texts, std::string_view name) {
  for (const AttributeText& text : texts)
    if (text.name == name) return &text;
  return nullptr;
}

// What each reference to an attribute holds again; tensors share their bytes.
std::uint64_t copied_bytes(const Attribute& a) {
  std::uint64_t bytes =
      a.s.size() + a.ints.size() * sizeof a.ints[0] + a.floats.size() * sizeof a.floats[0];
  for (const std::string& text : a.strings) bytes += text.size() + sizeof(std::string);
  return bytes;
}

// An attribute of a call belongs to the caller: its subgraphs see the caller's values. Where it is
// used in a graph inside the function's body, all graphs between there and the caller's have
// stand-ins for these.
Result<std::optional<Attribute>> read_of_caller(ImportContext& context, const Scope& scope,
                                                Scope& caller, const AttributeText& text) {
  std::vector<GraphBuild*> between;  // innermost first
  for (const Scope* at = &scope; at != nullptr && &at->build() != &caller.build();
       at = at->parent())
    between.push_back(&at->build());
  if (between.empty()) return read_attribute(context, caller, text);
  std::deque<Scope> views;
  Scope* seen = &caller;
  for (GraphBuild* build : between | std::views::reverse) {
    seen = &views.emplace_back(*build, seen);
    seen->become_view();
  }
  return read_attribute(context, *seen, text);
}

// The attribute that a reference in an expanded body stands for.
Result<std::optional<Attribute>> resolve_reference(ImportContext& context, Scope& scope,
                                                   const Attribute& reference) {
  const FunctionFrame& frame = *scope.frame();
  std::optional<Attribute> found;
  if (const auto* text = find_text(frame.call->attributes, reference.ref_name)) {
    found = CTXGEN_TRY(read_of_caller(context, scope, *frame.caller, *text));
  } else if (const auto* otherwise = find_text(frame.function->defaults, reference.ref_name)) {
    found = CTXGEN_TRY(read_value(context, scope, otherwise->message));
    if (!found->ref_name.empty())
      return fail(ErrorCode::kInvalidGraph, "default of attribute \"{}\" refers to an attribute",
                  otherwise->name);
  }
  if (!found) return found;
  if (reference.kind != AttributeKind::kUndefined && reference.kind != found->kind)
    return fail(ErrorCode::kInvalidGraph,
                "attribute \"{}\" refers to \"{}\" of the function call, which has another type",
                reference.name, reference.ref_name);
  found->name = reference.name;
  CTXGEN_CHECK(context.count_expanded(copied_bytes(*found)));
  return found;
}

}  // namespace

AttributeKind kind_by_field(std::uint32_t number) {
  switch (number) {
    case fa::kFloat: return AttributeKind::kFloat;
    case fa::kInt: return AttributeKind::kInt;
    case fa::kString: return AttributeKind::kString;
    case fa::kTensor: return AttributeKind::kTensor;
    case fa::kGraph: return AttributeKind::kGraph;
    case fa::kFloats: return AttributeKind::kFloats;
    case fa::kInts: return AttributeKind::kInts;
    case fa::kStrings: return AttributeKind::kStrings;
    case fa::kTensors: return AttributeKind::kTensors;
    case fa::kGraphs: return AttributeKind::kGraphs;
    case fa::kSparseTensor: return AttributeKind::kSparseTensor;
    case fa::kSparseTensors: return AttributeKind::kSparseTensors;
    case fa::kTypeProto: return AttributeKind::kType;
    case fa::kTypeProtos: return AttributeKind::kTypes;
    default: return AttributeKind::kUndefined;
  }
}

Result<AttributeText> read_attribute_name(Message message) {
  AttributeText text{.name = {}, .message = message};
  MessageReader reader(message, "attribute");
  while (const wire::Field* f = reader.next())
    if (f->tag == wire::bytes(fa::kName)) text.name = f->text();
  CTXGEN_CHECK(reader.status());
  if (text.name.empty()) return fail(ErrorCode::kInvalidGraph, "an attribute without a name");
  return text;
}

Result<std::optional<Attribute>> read_attribute(ImportContext& context, Scope& scope,
                                                const AttributeText& text) {
  auto read =
      CTXGEN_TRY_AT(read_value(context, scope, text.message), "attribute \"{}\"", text.name);
  if (!read.ref_name.empty() && scope.frame() != nullptr)
    return resolve_reference(context, scope, read);
  return std::optional<Attribute>(std::move(read));
}

}  // namespace ctxgen
