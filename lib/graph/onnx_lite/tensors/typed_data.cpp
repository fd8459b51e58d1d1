#include "tensors/typed_data.h"

#include <cstring>
#include <vector>

#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace ft = field::tensor;

namespace {

enum class Encoding { kFixed32, kFixed64, kVarint };

struct FieldOfType {
  std::uint32_t number;
  Encoding encoding;
  std::uint32_t elements_each;  // wire elements per tensor element (complex numbers: two)
  std::uint32_t bytes_each;     // bytes of the tensor per wire element
};

// Which field holds which type: onnx.proto, comments of TensorProto. int32_data holds the values of
// narrow integers, the bit patterns of small floats, and the packed bytes of sub-byte types.
FieldOfType field_of(DataType type) {
  switch (type) {
    case DataType::kFloat: return {ft::kFloatData, Encoding::kFixed32, 1, 4};
    case DataType::kComplex64: return {ft::kFloatData, Encoding::kFixed32, 2, 4};
    case DataType::kDouble: return {ft::kDoubleData, Encoding::kFixed64, 1, 8};
    case DataType::kComplex128: return {ft::kDoubleData, Encoding::kFixed64, 2, 8};
    case DataType::kInt64: return {ft::kInt64Data, Encoding::kVarint, 1, 8};
    case DataType::kUint64: return {ft::kUint64Data, Encoding::kVarint, 1, 8};
    case DataType::kUint32: return {ft::kUint64Data, Encoding::kVarint, 1, 4};
    default: return {ft::kInt32Data, Encoding::kVarint, 1, std::max(1u, bits_of(type) / 8)};
  }
}

wire::Type scalar_type(Encoding encoding) {
  switch (encoding) {
    case Encoding::kFixed32: return wire::Type::kFixed32;
    case Encoding::kFixed64: return wire::Type::kFixed64;
    case Encoding::kVarint: break;
  }
  return wire::Type::kVarint;
}

std::uint64_t count_varints(std::span<const std::byte> bytes) {
  std::uint64_t count = 0;
  for (const std::byte b : bytes) count += (b & std::byte{0x80}) == std::byte{0} ? 1 : 0;
  return count;
}

// Elements of all occurrences of the field, packed or not.
Result<std::uint64_t> count_elements(std::span<const std::byte> message, const FieldOfType& what) {
  std::uint64_t count = 0;
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::tag(what.number, scalar_type(what.encoding))) ++count;
    if (f->tag != wire::bytes(what.number)) continue;
    const std::size_t width = what.encoding == Encoding::kFixed32 ? 4 : 8;
    if (what.encoding != Encoding::kVarint && f->body.size() % width != 0)
      return fail(ErrorCode::kInvalidGraph, "packed data of {} bytes, not a multiple of {}",
                  f->body.size(), width);
    count += what.encoding == Encoding::kVarint ? count_varints(f->body) : f->body.size() / width;
  }
  CTXGEN_CHECK(reader.status());
  return count;
}

// Appends the elements of one occurrence at `out` and moves it on. The count was checked before.
Status append(std::span<const std::byte> body, const FieldOfType& what, bool is_bool,
              std::byte*& out) {
  if (what.encoding != Encoding::kVarint) {
    if (!body.empty()) std::memcpy(out, body.data(), body.size());
    out += body.size();
    return {};
  }
  while (!body.empty()) {
    auto value = wire::take_varint(body);
    if (!value) return fail(ErrorCode::kInvalidGraph, "malformed number in typed data");
    if (is_bool) value = *value != 0 ? 1 : 0;
    std::memcpy(out, &*value, what.bytes_each);  // little-endian: the low bytes come first
    out += what.bytes_each;
  }
  return {};
}

}  // namespace

Result<std::optional<std::span<const std::byte>>> packed_in_place(
    std::span<const std::byte> message, DataType type, std::uint64_t size_bytes) {
  const FieldOfType what = field_of(type);
  std::optional<std::span<const std::byte>> found;
  if (what.encoding == Encoding::kVarint) return found;
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next()) {
    if (f->field_number() != what.number) continue;
    if (found || f->tag != wire::bytes(what.number) || f->body.size() != size_bytes)
      return std::optional<std::span<const std::byte>>{};
    found = f->body;
  }
  CTXGEN_CHECK(reader.status());
  return found;
}

Result<Tensor> decode_numbers(std::span<const std::byte> message, DataType type, const Dims& dims) {
  const FieldOfType what = field_of(type);
  const bool is_packed_bytes = bits_of(type) < 8;
  const std::uint64_t elements =
      is_packed_bytes ? *checked_size_bytes(type, dims) : *checked_element_count(dims);
  const std::uint64_t count = CTXGEN_TRY(count_elements(message, what));
  if (count % what.elements_each != 0 || count / what.elements_each != elements)
    return fail(ErrorCode::kInvalidGraph, "{} {} needs {} numbers, has {}", name_of(type),
                to_string(dims), elements, count / what.elements_each);
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(type, dims));
  std::byte* out = tensor.mutable_bytes().data();
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next()) {
    const bool scalar = f->tag == wire::tag(what.number, scalar_type(what.encoding));
    if (scalar || f->tag == wire::bytes(what.number))
      CTXGEN_CHECK(append(f->body, what, type == DataType::kBool, out));
  }
  return tensor;
}

Result<Tensor> decode_strings(std::span<const std::byte> message, const Dims& dims) {
  std::vector<std::string> strings;
  MessageReader reader(message, "tensor");
  while (const wire::Field* f = reader.next())
    if (f->tag == wire::bytes(ft::kStringData)) strings.emplace_back(f->text());
  CTXGEN_CHECK(reader.status());
  if (strings.size() != checked_element_count(dims))
    return fail(ErrorCode::kInvalidGraph, "string {} needs {} strings, has {}", to_string(dims),
                *checked_element_count(dims), strings.size());
  return Tensor::of_strings(dims, std::move(strings));
}

namespace {

std::int64_t index_at(const Tensor& indices, std::uint64_t position) {
  std::int64_t value = 0;
  std::memcpy(&value, indices.bytes().data() + position * sizeof value, sizeof value);
  return value;
}

// The linear position of entry `i`, or nothing if it is outside.
std::optional<std::uint64_t> position_of(const Tensor& indices, std::uint64_t i, const Dims& dims,
                                         std::uint64_t element_total) {
  if (indices.rank() == 1) {
    const std::int64_t at = index_at(indices, i);
    if (at < 0 || static_cast<std::uint64_t>(at) >= element_total) return std::nullopt;
    return static_cast<std::uint64_t>(at);
  }
  std::uint64_t linear = 0;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    const std::int64_t at = index_at(indices, i * dims.size() + axis);
    if (at < 0 || at >= dims[axis]) return std::nullopt;
    linear = linear * static_cast<std::uint64_t>(dims[axis]) + static_cast<std::uint64_t>(at);
  }
  return linear;
}

Status check_sparse_parts(const Tensor& values, const Tensor& indices, const Dims& dims) {
  const std::size_t width = bits_of(values.type()) / 8;
  if (width == 0)
    return fail(ErrorCode::kUnsupported, "sparse tensors of {}", name_of(values.type()));
  if (values.rank() != 1)
    return fail(ErrorCode::kInvalidGraph, "values {} are not one-dimensional",
                to_string(values.dims()));
  const std::int64_t count = values.dims()[0];
  const bool linear = indices.rank() == 1 && indices.dims()[0] == count;
  const bool coordinates = indices.rank() == 2 && indices.dims()[0] == count &&
                           indices.dims()[1] == static_cast<std::int64_t>(dims.size());
  if (indices.type() != DataType::kInt64 || !(linear || coordinates))
    return fail(ErrorCode::kInvalidGraph, "indices are {} {}, expected int64 [{}] or [{}, {}]",
                name_of(indices.type()), to_string(indices.dims()), count, count, dims.size());
  return {};
}

}  // namespace

Result<Tensor> densify(const Tensor& values, const Tensor& indices, const Dims& dims) {
  CTXGEN_CHECK(check_sparse_parts(values, indices, dims));
  Tensor dense = CTXGEN_TRY(Tensor::allocate(values.type(), dims));
  const std::size_t width = bits_of(values.type()) / 8;
  const std::span<std::byte> out = dense.mutable_bytes();
  if (!out.empty()) std::memset(out.data(), 0, out.size());
  const auto total = static_cast<std::uint64_t>(dense.element_count());
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(values.dims()[0]); ++i) {
    const auto at = position_of(indices, i, dims, total);
    if (!at) return fail(ErrorCode::kInvalidGraph, "index {} is outside {}", i, to_string(dims));
    std::memcpy(out.data() + *at * width, values.bytes().data() + i * width, width);
  }
  return dense;
}

}  // namespace ctxgen
