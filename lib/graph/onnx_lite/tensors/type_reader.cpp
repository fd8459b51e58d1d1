#include "tensors/type_reader.h"

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {
namespace {

// sequence(optional(...)) and the like: more than any model has.
constexpr int kMaxTypeDepth = 8;

Result<Dim> read_dim(std::span<const std::byte> message, Model& model) {
  Dim dim;
  MessageReader reader(message, "dimension");
  while (const wire::Field* f = reader.next()) {
    // Exporters write -1 and "" for what they do not know.
    if (f->tag == wire::varint(field::shape::kDimValue))
      dim = f->integer() >= 0 ? Dim::fixed(f->integer()) : Dim();
    if (f->tag == wire::bytes(field::shape::kDimParam))
      dim = f->body.empty() ? Dim() : Dim::symbol(model.symbol(f->text()));
  }
  CTXGEN_CHECK(reader.status());
  return dim;
}

Result<std::vector<Dim>> read_shape(std::span<const std::byte> message, Model& model) {
  std::vector<Dim> dims;
  MessageReader reader(message, "shape");
  while (const wire::Field* f = reader.next()) {
    if (f->tag != wire::bytes(field::shape::kDim)) continue;
    if (dims.size() == kMaxRank)
      return fail(ErrorCode::kUnsupported, "a shape of more than {} dimensions", kMaxRank);
    dims.push_back(CTXGEN_TRY(read_dim(f->body, model)));
  }
  CTXGEN_CHECK(reader.status());
  return dims;
}

Status read_tensor_type(std::span<const std::byte> message, Model& model, ValueType& type) {
  MessageReader reader(message, "tensor type");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::varint(field::type::kElement)) {
      if (f->number != 0 && !is_known_data_type(f->integer()))
        return fail(ErrorCode::kUnsupported, "element type {} is not known", f->integer());
      type.element = static_cast<DataType>(f->integer());
    }
    if (f->tag == wire::bytes(field::type::kShape))
      type.shape = CTXGEN_TRY(read_shape(f->body, model));
  }
  return reader.status();
}

Result<ValueType> read_nested_type(std::span<const std::byte> message, Model& model, int depth);

// The element tensor of a sequence or an optional.
Status read_container_type(std::span<const std::byte> message, Model& model, int depth,
                           ValueType& type) {
  MessageReader reader(message, "type");
  while (const wire::Field* f = reader.next()) {
    if (f->tag != wire::bytes(field::type::kElement)) continue;
    ValueType element = CTXGEN_TRY(read_nested_type(f->body, model, depth + 1));
    type.element = element.element;
    type.shape = std::move(element.shape);
  }
  return reader.status();
}

Result<ValueType> read_nested_type(std::span<const std::byte> message, Model& model, int depth) {
  using Kind = ValueType::Kind;
  if (depth > kMaxTypeDepth) return fail(ErrorCode::kUnsupported, "a type nested too deeply");
  ValueType type;
  MessageReader reader(message, "type");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(field::type::kTensor):
      case wire::bytes(field::type::kSparseTensor):
        type.kind = f->field_number() == field::type::kTensor ? Kind::kTensor : Kind::kSparseTensor;
        CTXGEN_CHECK(read_tensor_type(f->body, model, type));
        break;
      case wire::bytes(field::type::kSequence):
      case wire::bytes(field::type::kOptional):
        type.kind = f->field_number() == field::type::kSequence ? Kind::kSequence : Kind::kOptional;
        CTXGEN_CHECK(read_container_type(f->body, model, depth, type));
        break;
      case wire::bytes(field::type::kMap): type.kind = Kind::kMap; break;
      case wire::bytes(field::type::kOpaque): type.kind = Kind::kOpaque; break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  return type;
}

}  // namespace

Result<ValueType> read_type(std::span<const std::byte> message, Model& model) {
  return read_nested_type(message, model, 0);
}

Result<ValueInfo> read_value_info(std::span<const std::byte> message, Model& model) {
  ValueInfo info;
  std::span<const std::byte> type;
  MessageReader reader(message, "value info");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::bytes(field::value_info::kName)) info.name = f->text();
    if (f->tag == wire::bytes(field::value_info::kType)) type = f->body;
  }
  CTXGEN_CHECK(reader.status());
  auto read = CTXGEN_TRY_AT(read_type(type, model), "value \"{}\"", info.name);
  info.type = std::move(read);
  return info;
}

}  // namespace ctxgen
