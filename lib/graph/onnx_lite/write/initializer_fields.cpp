#include "write/initializer_fields.h"

#include <array>
#include <string>

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace ft = field::tensor;

namespace {

// Smaller ones are cheaper to copy than to look after.
constexpr std::uint64_t kAlignedFrom = 4096;

constexpr std::array<std::uint32_t, 9> kDataFields{
    ft::kFloatData,  ft::kInt32Data,  ft::kStringData,   ft::kInt64Data,   ft::kRawData,
    ft::kDoubleData, ft::kUint64Data, ft::kExternalData, ft::kDataLocation};

bool is_data(std::uint32_t number) {
  for (const std::uint32_t each : kDataFields)
    if (each == number) return true;
  return false;
}

void add_entry(std::string_view key, std::string_view value, Pieces& tensor) {
  Pieces entry;
  entry.text_field(field::entry::kKey, key);
  entry.text_field(field::entry::kValue, value);
  tensor.message_field(ft::kExternalData, std::move(entry));
}

}  // namespace

bool is_aligned_when_written(const Value& value) {
  return value.initializer && !value.is_sparse && !value.initializer_source().empty() &&
         value.initializer->bytes().size() >= kAlignedFrom;
}

Result<std::optional<Pieces>> aligned_tensor(const Model& model, const Value& value,
                                             std::uint64_t offset) {
  constexpr std::uint64_t kAlignment = 8;  // what the widest element type asks for
  Pieces tensor;
  std::span<const std::byte> raw;
  std::uint64_t data_type = 0;
  MessageReader reader(model.bytes(value.initializer_source()), "tensor");
  while (const wire::Field* f = reader.next()) {
    const std::uint32_t number = f->field_number();
    if (f->tag == wire::bytes(ft::kRawData))
      raw = f->body;
    else if (f->tag == wire::varint(ft::kDataType))
      data_type = f->number;
    else if (!value.initializer_is_external ||
             (number != ft::kExternalData && number != ft::kDataLocation))
      tensor.fields(f->whole);
  }
  CTXGEN_CHECK(reader.status());
  if (value.initializer_is_external) {
    raw = value.initializer->bytes();
    tensor.keep(value.initializer->owner());
  }
  if (raw.size() < kAlignedFrom || data_type >= 0x80) return std::optional<Pieces>();
  // Behind the tensor's tag and length come its other fields, data_type's tag and number, and the
  // tag and length of the bytes.
  const std::uint64_t before =
      offset + 1 + Pieces::kWideBytes + tensor.size() + 1 + 1 + 1 + wire::varint_size(raw.size());
  const std::uint64_t room = (kAlignment - before % kAlignment) % kAlignment;
  tensor.padded_varint_field(ft::kDataType, data_type, 1 + room);
  tensor.bytes_field(ft::kRawData, raw);
  return std::optional(std::move(tensor));
}

Result<Pieces> external_tensor(const Model& model, const Value& value, std::string_view location,
                               const ExternalPlace& place) {
  Pieces tensor;
  if (value.initializer_source().empty()) {
    for (const std::int64_t dim : value.initializer->dims())
      tensor.varint_field(ft::kDims, static_cast<std::uint64_t>(dim));
    tensor.varint_field(ft::kDataType, static_cast<std::uint64_t>(value.initializer->type()));
    tensor.text_field(ft::kName, value.name);
  } else {
    MessageReader reader(model.bytes(value.initializer_source()), "tensor");
    while (const wire::Field* f = reader.next())
      if (!is_data(f->field_number())) tensor.fields(f->whole);
    CTXGEN_CHECK(reader.status());
  }
  add_entry("location", place.location.empty() ? location : place.location, tensor);
  add_entry("offset", std::to_string(place.offset), tensor);
  add_entry("length", std::to_string(place.length), tensor);
  tensor.varint_field(ft::kDataLocation, 1);
  return tensor;
}

}  // namespace ctxgen
