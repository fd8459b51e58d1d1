#include "write/encode.h"

#include "ctxgen/onnx_lite/read_model.h"

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace fa = field::attribute;
namespace fg = field::graph;
namespace fn = field::node;
namespace ft = field::tensor;

Pieces Encoder::tensor(const Tensor& tensor, std::string_view name) {
  Pieces out;
  for (const std::int64_t dim : tensor.dims())
    out.varint_field(ft::kDims, static_cast<std::uint64_t>(dim));
  out.varint_field(ft::kDataType, static_cast<std::uint64_t>(tensor.type()));
  if (!name.empty()) out.text_field(ft::kName, name);
  if (tensor.is_string())
    for (const std::string& text : tensor.strings()) out.text_field(ft::kStringData, text);
  else
    out.bytes_field(ft::kRawData, tensor.bytes());
  out.keep(tensor.owner());
  return out;
}

Pieces Encoder::tensor_type(const ValueType& type) const {
  Pieces out;
  out.varint_field(field::type::kElement, static_cast<std::uint64_t>(type.element));
  if (!type.shape) return out;
  Pieces shape;
  for (const Dim& dim : *type.shape) {
    Pieces encoded;
    if (dim.is_fixed())
      encoded.varint_field(field::shape::kDimValue, static_cast<std::uint64_t>(dim.value()));
    else if (dim.is_symbol())
      encoded.text_field(field::shape::kDimParam, model_.symbol_name(dim.symbol()));
    shape.message_field(field::shape::kDim, std::move(encoded));
  }
  out.message_field(field::type::kShape, std::move(shape));
  return out;
}

Pieces Encoder::type(const ValueType& type) const {
  using Kind = ValueType::Kind;
  Pieces out;
  if (type.kind == Kind::kTensor) out.message_field(field::type::kTensor, tensor_type(type));
  if (type.kind == Kind::kSparseTensor)
    out.message_field(field::type::kSparseTensor, tensor_type(type));
  if (type.kind == Kind::kSequence || type.kind == Kind::kOptional) {
    Pieces element, container;
    element.message_field(field::type::kTensor, tensor_type(type));
    container.message_field(field::type::kElement, std::move(element));
    out.message_field(
        type.kind == Kind::kSequence ? field::type::kSequence : field::type::kOptional,
        std::move(container));
  }
  return out;
}

Pieces Encoder::value_info(std::string_view name, const ValueType& value_type) const {
  Pieces out;
  out.text_field(field::value_info::kName, name);
  if (value_type.kind != ValueType::Kind::kUnknown)
    out.message_field(field::value_info::kType, type(value_type));
  return out;
}

Result<Pieces> Encoder::retyped(SourceRange source, const Value& value) const {
  Pieces out = value_info(value.name, value.type);
  MessageReader reader(model_.bytes(source), "value info");
  while (const wire::Field* f = reader.next())
    if (f->field_number() != field::value_info::kName &&
        f->field_number() != field::value_info::kType)
      out.fields(f->whole);
  CTXGEN_CHECK(reader.status());
  return out;
}

Result<Pieces> Encoder::attribute_from_fields(const Attribute& a) {
  Pieces out;
  out.text_field(fa::kName, a.name);
  switch (a.kind) {
    case AttributeKind::kFloat: out.float_field(fa::kFloat, a.f); break;
    case AttributeKind::kInt: out.varint_field(fa::kInt, static_cast<std::uint64_t>(a.i)); break;
    case AttributeKind::kString: out.text_field(fa::kString, a.s); break;
    case AttributeKind::kFloats:
      for (const float each : a.floats) out.float_field(fa::kFloats, each);
      break;
    case AttributeKind::kInts:
      for (const std::int64_t each : a.ints)
        out.varint_field(fa::kInts, static_cast<std::uint64_t>(each));
      break;
    case AttributeKind::kStrings:
      for (const std::string& each : a.strings) out.text_field(fa::kStrings, each);
      break;
    case AttributeKind::kTensor:
    case AttributeKind::kSparseTensor:  // its dense form
      out.message_field(fa::kTensor, tensor(a.tensors.at(0), ""));
      break;
    case AttributeKind::kTensors:
    case AttributeKind::kSparseTensors:
      for (const Tensor& each : a.tensors) out.message_field(fa::kTensors, tensor(each, ""));
      break;
    case AttributeKind::kGraph:
      out.message_field(fa::kGraph, CTXGEN_TRY(subgraph(*a.graphs.at(0))));
      break;
    case AttributeKind::kGraphs:
      for (const auto& each : a.graphs) out.message_field(fa::kGraphs, CTXGEN_TRY(subgraph(*each)));
      break;
    case AttributeKind::kType: out.message_field(fa::kTypeProto, type(a.types.at(0))); break;
    case AttributeKind::kTypes:
      for (const ValueType& each : a.types) out.message_field(fa::kTypeProtos, type(each));
      break;
    case AttributeKind::kUndefined: break;
  }
  out.varint_field(fa::kType, static_cast<std::uint64_t>(a.kind));
  return out;
}

// The name comes from the node: a function's body may take a call's attribute under another one.
Result<Pieces> Encoder::attribute_from_source(const Attribute& a) {
  Pieces out;
  out.text_field(fa::kName, a.name);
  MessageReader reader(model_.bytes(a.source), "attribute");
  while (const wire::Field* f = reader.next())
    if (f->field_number() != fa::kName)
      CTXGEN_CHECK(relocator_.copy_whole(Relocator::Kind::kAttribute, f->whole, out));
  CTXGEN_CHECK(reader.status());
  return out;
}

Result<Pieces> Encoder::attribute(const Attribute& a) {
  return a.source.empty() ? attribute_from_fields(a) : attribute_from_source(a);
}

Status Encoder::check_opset(const Node& node) {
  auto imported = model_.opset(node.domain);
  for (const OpsetImport& import : needed_opsets_)
    if (import.domain == node.domain) imported = import.version;
  if (!imported) needed_opsets_.push_back({node.domain.str(), node.opset});
  if (imported && *imported != node.opset)
    return fail(ErrorCode::kUnsupported,
                "{}: it comes from a function that imports opset {} of domain \"{}\", the model "
                "imports {}: it can only be written as the call that it was",
                node.describe(), node.opset, node.domain, *imported);
  return {};
}

Result<Pieces> Encoder::node(const Graph& graph, const Node& node) {
  if (for_file_) CTXGEN_CHECK(check_opset(node));
  Pieces out;
  for (const ValueId id : node.inputs)
    out.text_field(fn::kInput, id.valid() ? graph.value(id).name : std::string_view());
  for (const ValueId id : node.outputs)
    out.text_field(fn::kOutput, id.valid() ? graph.value(id).name : std::string_view());
  if (!node.name.empty()) out.text_field(fn::kName, node.name);
  out.text_field(fn::kOpType, node.op_type);
  for (const Attribute& each : node.attributes)
    out.message_field(fn::kAttribute, CTXGEN_TRY(attribute(each)));
  if (!node.domain.empty()) out.text_field(fn::kDomain, node.domain);
  if (!node.overload.empty()) out.text_field(fn::kOverload, node.overload);
  return out;
}

Result<Pieces> Encoder::subgraph(const Graph& graph) {
  Pieces out;
  for (const Node& each : graph.nodes())
    out.message_field(fg::kNode, CTXGEN_TRY(node(graph, each)));
  out.text_field(fg::kName, graph.name);
  for (const Value& value : graph.values())
    if (value.initializer && !value.is_outer)
      out.message_field(fg::kInitializer, tensor(*value.initializer, value.name));
  for (const ValueId id : graph.inputs)
    out.message_field(fg::kInput, value_info(graph.value(id).name, graph.value(id).type));
  for (const ValueId id : graph.outputs)
    out.message_field(fg::kOutput, value_info(graph.value(id).name, graph.value(id).type));
  return out;
}

Pieces Encoder::ep_context(const Graph& graph, const EpContextNode& node) const {
  Pieces out;
  for (const ValueId id : node.inputs)
    out.text_field(fn::kInput, id.valid() ? graph.value(id).name : std::string_view());
  for (const ValueId id : node.outputs)
    out.text_field(fn::kOutput, id.valid() ? graph.value(id).name : std::string_view());
  out.text_field(fn::kName, node.name);
  out.text_field(fn::kOpType, kEpContextOpType);
  const auto add = [&out](std::string_view name, AttributeKind kind, auto&& value) {
    Pieces attribute;
    attribute.text_field(fa::kName, name);
    value(attribute);
    attribute.varint_field(fa::kType, static_cast<std::uint64_t>(kind));
    out.message_field(fn::kAttribute, std::move(attribute));
  };
  const auto integer = [&add](std::string_view name, std::int64_t number) {
    add(name, AttributeKind::kInt, [number](Pieces& attribute) {
      attribute.varint_field(fa::kInt, static_cast<std::uint64_t>(number));
    });
  };
  const auto text = [&add](std::string_view name, std::span<const std::byte> bytes) {
    add(name, AttributeKind::kString,
        [bytes](Pieces& attribute) { attribute.bytes_field(fa::kString, bytes); });
  };
  const EpContextAttributes& a = node.attributes;
  integer("main_context", a.main_context);
  text("ep_cache_context",
       node.payload.bytes.empty() ? as_bytes(a.ep_cache_context) : node.payload.bytes);
  integer("embed_mode", a.embed_mode);
  text("ep_sdk_version", as_bytes(a.ep_sdk_version));
  text("onnx_model_filename", as_bytes(a.onnx_model_filename));
  text("hardware_architecture", as_bytes(a.hardware_architecture));
  text("partition_name", as_bytes(a.partition_name));
  text("source", as_bytes(a.source));
  text("notes", as_bytes(a.notes));
  integer("max_size", a.max_size);
  out.text_field(fn::kDomain, kMicrosoftDomain);
  return out;
}

std::vector<std::byte> write_tensor(const Tensor& tensor, std::string_view name) {
  std::vector<std::byte> bytes;
  const auto append = [&bytes](std::span<const std::byte> part) -> Status {
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  };
  static_cast<void>(Encoder::tensor(tensor, name).write(append));  // the sink never fails
  return bytes;
}

}  // namespace ctxgen
