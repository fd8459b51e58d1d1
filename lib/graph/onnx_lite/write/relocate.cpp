#include "write/relocate.h"

#include <optional>

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {
namespace {

using Kind = Relocator::Kind;

// Deeper than any model that was read: read_model refuses subgraphs nested more than 32 deep, and
// a level of subgraphs is three messages.
constexpr int kMaxDepth = 120;

// The messages inside of messages that tensors can be in.
std::optional<Kind> kind_of(Kind parent, std::uint32_t number) {
  namespace fa = field::attribute;
  switch (parent) {
    case Kind::kGraph:
      if (number == field::graph::kNode) return Kind::kNode;
      if (number == field::graph::kInitializer) return Kind::kTensor;
      if (number == field::graph::kSparseInitializer) return Kind::kSparseTensor;
      return std::nullopt;
    case Kind::kNode:
      if (number == field::node::kAttribute) return Kind::kAttribute;
      return std::nullopt;
    case Kind::kAttribute:
      if (number == fa::kTensor || number == fa::kTensors) return Kind::kTensor;
      if (number == fa::kGraph || number == fa::kGraphs) return Kind::kGraph;
      if (number == fa::kSparseTensor || number == fa::kSparseTensors) return Kind::kSparseTensor;
      return std::nullopt;
    case Kind::kSparseTensor:
      if (number == field::sparse::kValues || number == field::sparse::kIndices)
        return Kind::kTensor;
      return std::nullopt;
    case Kind::kFunction:
      if (number == field::function::kNode) return Kind::kNode;
      if (number == field::function::kAttributeProto) return Kind::kAttribute;
      return std::nullopt;
    case Kind::kTraining:
      if (number == field::training::kInitialization || number == field::training::kAlgorithm)
        return Kind::kGraph;
      return std::nullopt;
    case Kind::kTensor: return std::nullopt;
  }
  return std::nullopt;
}

bool is_bytes(const wire::Field& f) { return f.tag == wire::bytes(f.field_number()); }

}  // namespace

Relocator::Relocator(const Model& model)
    : model_(model),
      nothing_external_(model.files_read.empty()),
      resolver_(model.folder),
      tensors_(model.source, &resolver_) {}

Result<bool> Relocator::has_external(Kind kind, std::span<const std::byte> message, int depth) {
  if (depth > kMaxDepth) return fail(ErrorCode::kResourceLimit, "messages nested too deeply");
  bool external = false;
  MessageReader reader(message, "message");
  while (const wire::Field* f = reader.next()) {
    if (kind == Kind::kTensor && f->tag == wire::varint(field::tensor::kDataLocation))
      external = f->number == 1;
    const auto inner = is_bytes(*f) ? kind_of(kind, f->field_number()) : std::nullopt;
    if (inner && CTXGEN_TRY(has_external(*inner, f->body, depth + 1))) return true;
  }
  CTXGEN_CHECK(reader.status());
  return external;
}

Result<Pieces> Relocator::inline_tensor(std::span<const std::byte> message) {
  const NamedTensor read = CTXGEN_TRY(tensors_.read(message));
  Pieces out;
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next()) {
    const std::uint32_t number = f->field_number();
    if (number != field::tensor::kExternalData && number != field::tensor::kDataLocation &&
        number != field::tensor::kRawData)
      out.fields(f->whole);
  }
  out.bytes_field(field::tensor::kRawData, read.tensor.bytes());
  out.keep(read.tensor.owner());
  return out;
}

// Whether the message is written otherwise than it is.
Result<bool> Relocator::changes(Kind kind, std::span<const std::byte> message) {
  const auto& sorted = model_.sorted_nodes;
  if (!sorted.empty()) {
    const auto offset = static_cast<std::uint64_t>(message.data() - model_.source.bytes.data());
    const auto inside = sorted.lower_bound(offset);
    if (inside != sorted.end() && inside->first - offset < message.size()) return true;
  }
  return !nothing_external_ && CTXGEN_TRY(has_external(kind, message, 0));
}

// Called for messages that change only, so that each is walked few times.
Result<Pieces> Relocator::rewrite(Kind kind, std::span<const std::byte> message) {
  if (kind == Kind::kTensor) return inline_tensor(message);
  const std::uint32_t node_field =
      kind == Kind::kFunction ? field::function::kNode : field::graph::kNode;
  const auto order = kind == Kind::kGraph || kind == Kind::kFunction
                         ? model_.sorted_nodes.find(static_cast<std::uint64_t>(
                               message.data() - model_.source.bytes.data()))
                         : model_.sorted_nodes.end();
  std::size_t node = 0;
  Pieces out;
  MessageReader reader(message, "message");
  while (const wire::Field* f = reader.next()) {
    if (order != model_.sorted_nodes.end() && f->tag == wire::bytes(node_field))
      CTXGEN_CHECK(
          copy_field(node_field, Kind::kNode, model_.bytes(order->second.at(node++)), out));
    else
      CTXGEN_CHECK(copy_whole(kind, f->whole, out));
  }
  CTXGEN_CHECK(reader.status());
  return out;
}

Status Relocator::copy_field(std::uint32_t number, Kind kind, std::span<const std::byte> message,
                             Pieces& out) {
  if (!CTXGEN_TRY(changes(kind, message))) {
    out.bytes_field(number, message);
    return {};
  }
  out.message_field(number, CTXGEN_TRY(rewrite(kind, message)));
  return {};
}

Status Relocator::copy_whole(Kind parent, std::span<const std::byte> whole, Pieces& out) {
  if (nothing_external_ && model_.sorted_nodes.empty()) {
    out.fields(whole);
    return {};
  }
  MessageReader reader(whole, "message");
  while (const wire::Field* f = reader.next()) {
    const auto inner = is_bytes(*f) ? kind_of(parent, f->field_number()) : std::nullopt;
    if (inner)
      CTXGEN_CHECK(copy_field(f->field_number(), *inner, f->body, out));
    else
      out.fields(f->whole);
  }
  return reader.status();
}

}  // namespace ctxgen
