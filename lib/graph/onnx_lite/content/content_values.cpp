#include <forward_list>
#include <string>

#include "content/content_walk.h"
#include "tensors/tensor_reader.h"
#include "tensors/typed_data.h"
#include "wire/onnx_fields.h"

namespace ctxgen {

namespace ft = field::tensor;

namespace {

// As type_reader.cpp: deeper types are refused there.
constexpr int kMaxTypeDepth = 8;

Status add_packed(std::span<const std::byte> rest, wire::Type type,
                  std::vector<std::uint64_t>& out) {
  if (type == wire::Type::kVarint) {
    while (!rest.empty()) {
      const auto value = wire::take_varint(rest);
      if (!value) return fail(ErrorCode::kInvalidGraph, "malformed numbers");
      out.push_back(*value);
    }
    return {};
  }
  if (rest.size() % 4 != 0)
    return fail(ErrorCode::kInvalidGraph, "{} bytes of floats", rest.size());
  for (; !rest.empty(); rest = rest.subspan(4)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, rest.data(), sizeof bits);
    out.push_back(bits);
  }
  return {};
}

}  // namespace

/// A list of varints or of 32-bit floats, packed or not.
Status ContentWalk::numbers(const Fields& fields, std::uint32_t number, wire::Type type) {
  numbers_.clear();
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const RopeField field = fields.at(i);
    if (field.tag == wire::tag(number, type)) numbers_.push_back(field.number);
    if (field.tag != wire::bytes(number)) continue;
    std::forward_list<std::string> copies;
    CTXGEN_CHECK(add_packed(rope_.bytes(field.body, copies), type, numbers_));
  }
  feed_.number(numbers_.size());
  for (const std::uint64_t value : numbers_) feed_.number(value);
  return {};
}

Status ContentWalk::tensor(RopeRange message, bool named) {
  return open(message, [&](const Fields& fields) -> Status {
    if (named) text(fields.last(wire::bytes(ft::kName)).body);
    const auto type_number =
        static_cast<std::int64_t>(fields.last(wire::varint(ft::kDataType)).number);
    if (!is_known_data_type(type_number))
      return fail(ErrorCode::kUnsupported, "data type {} is not known", type_number);
    feed_.number(static_cast<std::uint64_t>(type_number));
    CTXGEN_CHECK(numbers(fields, ft::kDims, wire::Type::kVarint));
    if (numbers_.size() > kMaxRank)
      return fail(ErrorCode::kUnsupported, "more than {} dimensions", kMaxRank);
    Dims dims;
    for (const std::uint64_t dim : numbers_) dims.push_back(static_cast<std::int64_t>(dim));
    const auto type = static_cast<DataType>(type_number);
    if (!checked_size_bytes(type, dims))
      return fail(ErrorCode::kResourceLimit, "{} {} has too many elements", name_of(type),
                  to_string(dims));
    return tensor_content(fields, message, type, dims);
  });
}

/// The elements as raw_data has them, wherever and however they are stored.
Status ContentWalk::tensor_content(const Fields& fields, RopeRange message, DataType type,
                                   const Dims& dims) {
  if (fields.last(wire::varint(ft::kDataLocation)).number == 1)
    return external_content(fields, type, dims);
  if (fields.count(wire::bytes(ft::kRawData)) > 0) {
    text(fields.last(wire::bytes(ft::kRawData)).body);
    return {};
  }
  return typed_content(message, type, dims);
}

Status ContentWalk::external_content(const Fields& fields, DataType type, const Dims& dims) {
  std::forward_list<std::string> copies;
  ExternalDataRef ref;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (const RopeField field = fields.at(i); field.tag == wire::bytes(ft::kExternalData))
      CTXGEN_CHECK(read_external_entry(rope_.bytes(field.body, copies), ref));
  const RopeRange name = fields.last(wire::bytes(ft::kName)).body;
  const auto content = CTXGEN_TRY(
      external_(ref, *checked_size_bytes(type, dims), as_text(rope_.bytes(name, copies))));
  feed_.text(as_text(content));
  return {};
}

Status ContentWalk::typed_content(RopeRange message, DataType type, const Dims& dims) {
  std::forward_list<std::string> copies;
  const auto bytes = rope_.bytes(message, copies);
  if (type == DataType::kString) {
    const Tensor strings = CTXGEN_TRY(decode_strings(bytes, dims));
    feed_.number(strings.strings().size());
    for (const std::string& each : strings.strings()) feed_.text(each);
    return {};
  }
  if (const auto in_place =
          CTXGEN_TRY(packed_in_place(bytes, type, *checked_size_bytes(type, dims)))) {
    feed_.text(as_text(*in_place));
    return {};
  }
  const Tensor numbers = CTXGEN_TRY(decode_numbers(bytes, type, dims));
  feed_.text(as_text(numbers.bytes()));
  return {};
}

Status ContentWalk::sparse_tensor(RopeRange message, bool named) {
  return open(message, [&](const Fields& fields) -> Status {
    CTXGEN_CHECK(tensor(fields.last(wire::bytes(field::sparse::kValues)).body, named));
    CTXGEN_CHECK(tensor(fields.last(wire::bytes(field::sparse::kIndices)).body, false));
    return numbers(fields, field::sparse::kDims, wire::Type::kVarint);
  });
}

Status ContentWalk::value_info(RopeRange message) {
  return open(message, [&](const Fields& fields) -> Status {
    text(fields.last(wire::bytes(field::value_info::kName)).body);
    return type(fields.last(wire::bytes(field::value_info::kType)).body, 0);
  });
}

Status ContentWalk::type(RopeRange message, int depth) {
  if (depth > kMaxTypeDepth) return fail(ErrorCode::kUnsupported, "a type nested too deeply");
  return open(message, [&](const Fields& fields) -> Status {
    RopeField kind;
    for (std::size_t i = 0; i < fields.size(); ++i) switch (fields.at(i).tag) {
        case wire::bytes(field::type::kTensor):
        case wire::bytes(field::type::kSparseTensor):
        case wire::bytes(field::type::kSequence):
        case wire::bytes(field::type::kOptional):
        case wire::bytes(field::type::kMap):
        case wire::bytes(field::type::kOpaque): kind = fields.at(i); break;
        default: break;
      }
    feed_.number(kind.tag >> 3);
    switch (kind.tag >> 3) {
      case field::type::kTensor:
      case field::type::kSparseTensor: return tensor_type(kind.body);
      case field::type::kSequence:
      case field::type::kOptional:
        return open(kind.body, [&](const Fields& inner) {
          return type(inner.last(wire::bytes(field::type::kElement)).body, depth + 1);
        });
      case field::type::kMap:
        return open(kind.body, [&](const Fields& inner) -> Status {
          feed_.number(inner.last(wire::varint(field::type::kKey)).number);
          return type(inner.last(wire::bytes(field::type::kMapValue)).body, depth + 1);
        });
      case field::type::kOpaque:
        return open(kind.body, [&](const Fields& inner) -> Status {
          text(inner.last(wire::bytes(field::type::kOpaqueDomain)).body);
          text(inner.last(wire::bytes(field::type::kOpaqueName)).body);
          return {};
        });
      default: return {};
    }
  });
}

Status ContentWalk::tensor_type(RopeRange message) {
  return open(message, [&](const Fields& fields) -> Status {
    feed_.number(fields.last(wire::varint(field::type::kElement)).number);
    const bool has_shape = fields.count(wire::bytes(field::type::kShape)) > 0;
    feed_.number(has_shape ? 1 : 0);
    if (!has_shape) return {};
    return open(fields.last(wire::bytes(field::type::kShape)).body, [&](const Fields& shape) {
      return list(shape, wire::bytes(field::shape::kDim), [&](RopeRange one) { return dim(one); });
    });
  });
}

/// 0 unknown (exporters write -1 and "", too), 1 a number, 2 a name.
Status ContentWalk::dim(RopeRange message) {
  return open(message, [&](const Fields& fields) -> Status {
    RopeField known;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const RopeField field = fields.at(i);
      if (field.tag == wire::varint(field::shape::kDimValue))
        known = static_cast<std::int64_t>(field.number) >= 0 ? field : RopeField();
      if (field.tag == wire::bytes(field::shape::kDimParam))
        known = field.body.empty() ? RopeField() : field;
    }
    feed_.number(known.tag >> 3);
    if (known.tag == wire::varint(field::shape::kDimValue)) feed_.number(known.number);
    if (known.tag == wire::bytes(field::shape::kDimParam)) text(known.body);
    return {};
  });
}

}  // namespace ctxgen
