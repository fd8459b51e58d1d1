#include "tensors/tensor_reader.h"

#include <charconv>
#include <optional>

#include "read/entry_reader.h"
#include "tensors/typed_data.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace ft = field::tensor;

struct TensorReader::Parts {
  std::string name;
  Dims dims;
  DataType type = DataType::kUndefined;
  std::optional<std::span<const std::byte>> raw_data;
  bool has_external = false;
  ExternalDataRef external;
};

namespace {

template <class Number>
Status parse_decimal(std::string_view text, std::string_view key, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range)
    return fail(ErrorCode::kInvalidGraph, "external data: {} {} is too large: it exceeds 64 bits",
                key, text);
  if (error != std::errc{} || end != text.data() + text.size())
    return fail(ErrorCode::kInvalidGraph, "external data: {} is \"{}\", expected a decimal number",
                key, text);
  return {};
}

}  // namespace

Status read_external_entry(std::span<const std::byte> message, ExternalDataRef& ref) {
  const auto [key, value] = CTXGEN_TRY(read_entry(message, "external_data"));
  if (key == "location") ref.location = value;
  if (key == "offset") return parse_decimal(value, key, ref.offset);
  if (key == "length") return parse_decimal(value, key, ref.length.emplace());
  return {};
}

namespace {

Status add_dims(const wire::Field& f, Dims& dims) {
  std::span<const std::byte> rest = f.body;
  while (!rest.empty()) {
    const auto value = wire::take_varint(rest);
    if (!value) return fail(ErrorCode::kInvalidGraph, "malformed dims");
    const auto dim = static_cast<std::int64_t>(*value);
    if (dim < 0) return fail(ErrorCode::kInvalidGraph, "dim {} is negative", dim);
    if (dims.size() == kMaxRank)
      return fail(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
    dims.push_back(dim);
  }
  return {};
}

}  // namespace

Result<TensorReader::Parts> TensorReader::parse(std::span<const std::byte> message) const {
  Parts parts;
  std::int64_t type = 0;
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::varint(ft::kDims):
      case wire::bytes(ft::kDims): CTXGEN_CHECK(add_dims(*f, parts.dims)); break;
      case wire::varint(ft::kDataType): type = f->integer(); break;
      case wire::bytes(ft::kSegment):
        return fail(ErrorCode::kUnsupported, "a tensor stored in segments");
      case wire::bytes(ft::kName): parts.name = f->text(); break;
      case wire::bytes(ft::kRawData): parts.raw_data = f->body; break;
      case wire::bytes(ft::kExternalData):
        CTXGEN_CHECK(read_external_entry(f->body, parts.external));
        break;
      case wire::varint(ft::kDataLocation): parts.has_external = f->number == 1; break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  if (type == 0) return fail(ErrorCode::kInvalidGraph, "no data type");
  if (!is_known_data_type(type))
    return fail(ErrorCode::kUnsupported, "data type {} is not known", type);
  parts.type = static_cast<DataType>(type);
  if (!checked_size_bytes(parts.type, parts.dims))
    return fail(ErrorCode::kResourceLimit, "{} {} has too many elements", name_of(parts.type),
                to_string(parts.dims));
  return parts;
}

Result<Tensor> TensorReader::external(const Parts& parts) {
  if (parts.type == DataType::kString)
    return fail(ErrorCode::kInvalidGraph, "strings in external data");
  if (resolver_ == nullptr)
    return fail(ErrorCode::kInvalidGraph,
                "external data \"{}\", but no folder for external data is given",
                parts.external.location);
  const std::uint64_t size = *checked_size_bytes(parts.type, parts.dims);
  const Blob blob = CTXGEN_TRY(resolver_->resolve(parts.external, size, parts.name));
  if (blob.bytes.size() != size)
    return fail(ErrorCode::kInvalidGraph, "external data has {} bytes, expected {}",
                blob.bytes.size(), size);
  return Tensor::borrow(parts.type, parts.dims, blob.owner, blob.bytes);
}

Result<Tensor> TensorReader::raw(const Parts& parts) const {
  if (parts.type == DataType::kString) return fail(ErrorCode::kInvalidGraph, "strings in raw_data");
  const std::uint64_t size = *checked_size_bytes(parts.type, parts.dims);
  if (parts.raw_data->size() != size)
    return fail(ErrorCode::kInvalidGraph, "raw_data has {} bytes, {} {} needs {}",
                parts.raw_data->size(), name_of(parts.type), to_string(parts.dims), size);
  return Tensor::borrow(parts.type, parts.dims, owner_, *parts.raw_data);
}

Result<Tensor> TensorReader::typed(const Parts& parts, std::span<const std::byte> message) const {
  if (parts.type == DataType::kString) return decode_strings(message, parts.dims);
  const std::uint64_t size = *checked_size_bytes(parts.type, parts.dims);
  if (const auto in_place = CTXGEN_TRY(packed_in_place(message, parts.type, size)); in_place)
    return Tensor::borrow(parts.type, parts.dims, owner_, *in_place);
  return keep_in(spill_, CTXGEN_TRY(decode_numbers(message, parts.type, parts.dims)));
}

Result<NamedTensor> TensorReader::read(std::span<const std::byte> message) {
  auto parsed = CTXGEN_TRY_AT(parse(message), "a tensor");
  Parts& parts = parsed;
  auto tensor = parts.has_external ? external(parts)
                : parts.raw_data   ? raw(parts)
                                   : typed(parts, message);
  if (!tensor) {
    const std::string name =
        std::format("tensor \"{}\"", parts.name);  // the resolver names it already
    if (tensor.error().message.starts_with(name + ":"))
      return std::unexpected(std::move(tensor).error());
    return std::unexpected(with_context(std::move(tensor).error(), name));
  }
  return NamedTensor{std::move(parts.name), *std::move(tensor), parts.has_external};
}

Result<NamedTensor> TensorReader::read_sparse(std::span<const std::byte> message) {
  std::optional<NamedTensor> values, indices;
  Dims dims;
  MessageReader reader(message, "sparse tensor");
  while (const wire::Field* f = reader.next()) {
    switch (f->tag) {
      case wire::bytes(field::sparse::kValues): values = CTXGEN_TRY(read(f->body)); break;
      case wire::bytes(field::sparse::kIndices): indices = CTXGEN_TRY(read(f->body)); break;
      case wire::varint(field::sparse::kDims):
      case wire::bytes(field::sparse::kDims): CTXGEN_CHECK(add_dims(*f, dims)); break;
      default: break;
    }
  }
  CTXGEN_CHECK(reader.status());
  if (!values) return fail(ErrorCode::kInvalidGraph, "a sparse tensor without values");
  if (!indices)
    return fail(ErrorCode::kInvalidGraph, "sparse tensor \"{}\" has no indices", values->name);
  const auto size = checked_size_bytes(values->tensor.type(), dims);
  if (!size || *size > max_densified_bytes_ - densified_bytes_)
    return fail(ErrorCode::kResourceLimit,
                "sparse tensor \"{}\" {}: the dense forms of a model may have {} bytes in all",
                values->name, to_string(dims), max_densified_bytes_);
  densified_bytes_ += *size;
  auto dense = CTXGEN_TRY_AT(densify(values->tensor, indices->tensor, dims), "sparse tensor \"{}\"",
                             values->name);
  return NamedTensor{std::move(values->name), CTXGEN_TRY(keep_in(spill_, std::move(dense))),
                     values->is_external || indices->is_external};
}

}  // namespace ctxgen
