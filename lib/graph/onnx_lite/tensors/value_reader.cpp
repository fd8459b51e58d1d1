#include <algorithm>
#include <cstring>
#include <string>

#include "ctxgen/base/boundary.h"
#include "ctxgen/onnx_lite/read_model.h"

#include "tensors/tensor_reader.h"
#include "wire/message_reader.h"
#include "wire/onnx_fields.h"

// Test data that is not a tensor. SequenceProto and OptionalProto hold their content in fields of the
// same numbers, one per kind; ONNX nests them in no way that is not read here.

namespace ctxgen {

namespace fv = field::value;
namespace fm = field::map;

namespace {

std::unexpected<Error> unsupported(std::string_view where, const wire::Field& f) {
  return fail(ErrorCode::kUnsupported, "{} with content of field {}", where, f.field_number());
}

// Whether the field holds content of a kind other than those that were looked for.
bool is_content(const wire::Field& f) {
  return f.field_number() >= fv::kTensor && f.field_number() <= fv::kLast;
}

/// Tensors of one element each, as one.
Result<Tensor> joined(std::span<const RuntimeValue> items) {
  const DataType type = items.empty() ? DataType::kFloat : items.front().tensor().type();
  Tensor all = CTXGEN_TRY(Tensor::allocate(type, {static_cast<std::int64_t>(items.size())}));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Tensor& one = items[i].tensor();
    if (one.element_count() != 1 || (!one.is_string() && bits_of(type) < 8))
      return fail(ErrorCode::kUnsupported, "a map whose values are not scalars of whole bytes");
    if (one.is_string())
      all.mutable_strings()[i] = one.strings().front();
    else
      std::memcpy(all.mutable_bytes().data() + i * one.bytes().size(), one.bytes().data(),
                  one.bytes().size());
  }
  return all;
}

Result<RuntimeValue> read_map(const Blob& source, std::span<const std::byte> message);

Result<std::shared_ptr<SequenceValue>> read_sequence(const Blob& source,
                                                     std::span<const std::byte> message,
                                                     bool maps) {
  auto sequence = std::make_shared<SequenceValue>();
  TensorReader tensors(source, nullptr);
  MessageReader reader(message, "sequence");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::bytes(fv::kTensor)) {
      Tensor tensor = CTXGEN_TRY(tensors.read(f->body)).tensor;
      if (!sequence->items.empty() && tensor.type() != sequence->element)
        return fail(ErrorCode::kInvalidGraph, "a sequence of {} and {}", name_of(sequence->element),
                    name_of(tensor.type()));
      sequence->element = tensor.type();
      sequence->items.emplace_back(std::move(tensor));
    } else if (maps && f->tag == wire::bytes(fv::kMap)) {
      sequence->items.push_back(CTXGEN_TRY(read_map(source, f->body)));
    } else if (is_content(*f)) {
      return unsupported("a sequence", *f);
    }
  }
  CTXGEN_CHECK(reader.status());
  return sequence;
}

Status append_keys(const wire::Field& f, std::vector<std::int64_t>& keys) {
  for (std::span<const std::byte> rest = f.body; !rest.empty();) {
    const auto value = wire::take_varint(rest);
    if (!value) return fail(ErrorCode::kInvalidGraph, "malformed keys");
    keys.push_back(static_cast<std::int64_t>(*value));
  }
  return {};
}

Result<RuntimeValue> read_map(const Blob& source, std::span<const std::byte> message) {
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
  Tensor values = CTXGEN_TRY(joined({}));
  MessageReader reader(message, "map");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::varint(fm::kKeys)) ints.push_back(f->integer());
    if (f->tag == wire::bytes(fm::kKeys)) CTXGEN_CHECK(append_keys(*f, ints));
    if (f->tag == wire::bytes(fm::kStringKeys)) strings.emplace_back(f->text());
    if (f->tag == wire::bytes(fm::kValues)) {
      const auto sequence = CTXGEN_TRY(read_sequence(source, f->body, false));
      values = CTXGEN_TRY(joined(sequence->items));
    }
  }
  CTXGEN_CHECK(reader.status());
  const auto count = static_cast<std::int64_t>(std::max(ints.size(), strings.size()));
  if ((!ints.empty() && !strings.empty()) || values.element_count() != count)
    return fail(ErrorCode::kInvalidGraph, "a map of {} and {} keys with {} values", ints.size(),
                strings.size(), values.element_count());
  if (!strings.empty())
    return RuntimeValue(std::make_shared<const MapValue>(
        Tensor::of_strings({count}, std::move(strings)), std::move(values)));
  Tensor keys = CTXGEN_TRY(Tensor::allocate(DataType::kInt64, {count}));
  std::ranges::copy(ints, keys.mutable_elements<std::int64_t>().begin());
  return RuntimeValue(std::make_shared<const MapValue>(std::move(keys), std::move(values)));
}

Result<RuntimeValue> read_optional(const Blob& source) {
  RuntimeValue value = RuntimeValue::empty_optional();
  TensorReader tensors(source, nullptr);
  MessageReader reader(source.bytes, "optional");
  while (const wire::Field* f = reader.next()) {
    if (f->tag == wire::bytes(fv::kTensor))
      value = CTXGEN_TRY(tensors.read(f->body)).tensor;
    else if (f->tag == wire::bytes(fv::kSequence))
      value = CTXGEN_TRY(read_sequence(source, f->body, false));
    else if (is_content(*f))
      return unsupported("an optional", *f);
  }
  CTXGEN_CHECK(reader.status());
  return value;
}

Result<RuntimeValue> read_kind(Blob source, ValueType::Kind kind) {
  switch (kind) {
    case ValueType::Kind::kSequence:
      return RuntimeValue(CTXGEN_TRY(read_sequence(source, source.bytes, true)));
    case ValueType::Kind::kOptional: return read_optional(source);
    case ValueType::Kind::kMap: return read_map(source, source.bytes);
    case ValueType::Kind::kUnknown:
    case ValueType::Kind::kTensor: return RuntimeValue(CTXGEN_TRY(read_tensor(std::move(source))));
    default: return fail(ErrorCode::kUnsupported, "values of this type have no file form here");
  }
}

}  // namespace

Result<RuntimeValue> read_value(Blob source, const ValueType& type) {
  return at_boundary("reading a value", [&] { return read_kind(std::move(source), type.kind); });
}

}  // namespace ctxgen
