#include "value.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c_status.h"

using ctxgen::DataType;
using ctxgen::Dims;
using ctxgen::ErrorCode;
using ctxgen::fail;
using ctxgen::MapValue;
using ctxgen::Result;
using ctxgen::RuntimeValue;
using ctxgen::SequenceValue;
using ctxgen::Status;
using ctxgen::Tensor;
using ctxgen::capi::guarded;
using ctxgen::capi::not_null;

namespace {

Result<Dims> dims_of(const int64_t* sizes, size_t rank) {
  if (rank > ctxgen::kMaxRank)
    return fail(ErrorCode::kInvalidArgument, "rank {} is above {}", rank, ctxgen::kMaxRank);
  if (rank > 0) CTXGEN_CHECK(not_null(sizes, "dims"));
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    if (sizes[i] < 0) return fail(ErrorCode::kInvalidArgument, "dimension {} is {}", i, sizes[i]);
    dims.push_back(sizes[i]);
  }
  return dims;
}

Status hand_out(RuntimeValue value, ctxgen_value** out) {
  *out = new ctxgen_value{std::move(value)};
  return {};
}

/// A function that makes a value; `make` gives a Result<RuntimeValue>.
template <class Make>
ctxgen_status* create(ctxgen_value** value, Make&& make) noexcept {
  return guarded("making a value", [&]() -> Status {
    CTXGEN_CHECK(not_null(value, "value"));
    return hand_out(CTXGEN_TRY(make()), value);
  });
}

Result<Tensor> tensor_in(const ctxgen_value* value, std::string_view what) {
  CTXGEN_CHECK(not_null(value, what));
  if (!value->value.is_tensor())
    return fail(ErrorCode::kInvalidArgument, "{} is {}, expected a tensor", what,
                describe(value->value));
  return value->value.tensor();
}

Status check_item(const ctxgen_value* item, DataType element) {
  CTXGEN_CHECK(not_null(item, "an item"));
  const bool fits = item->value.is_tensor() ? item->value.tensor().type() == element
                                            : item->value.kind() == RuntimeValue::Kind::kMap &&
                                                  element == DataType::kUndefined;
  if (fits) return {};
  return fail(ErrorCode::kInvalidArgument, "an item is {}, expected {}", describe(item->value),
              element == DataType::kUndefined ? "a map" : name_of(element));
}

}  // namespace

namespace ctxgen::capi {

Result<Tensor> borrow_tensor(const ctxgen_tensor* tensor) {
  CTXGEN_CHECK(not_null(tensor, "tensor"));
  if (tensor->struct_size < sizeof(ctxgen_tensor))
    return fail(ErrorCode::kInvalidArgument, "tensor: struct_size is {}, expected {}",
                tensor->struct_size, sizeof(ctxgen_tensor));
  if (!is_known_data_type(tensor->type))
    return fail(ErrorCode::kInvalidArgument, "tensor: data type {} is not known", tensor->type);
  const auto type = static_cast<DataType>(tensor->type);
  if (type == DataType::kString)
    return fail(ErrorCode::kInvalidArgument,
                "tensor: strings are made by ctxgen_value_create_strings");
  const Dims dims = CTXGEN_TRY(dims_of(tensor->dims, tensor->rank));
  const auto wanted = checked_size_bytes(type, dims);
  if (!wanted || *wanted != tensor->size)
    return fail(ErrorCode::kInvalidArgument, "tensor: {} bytes, {} {} has {}", tensor->size,
                name_of(type), to_string(dims), wanted ? std::to_string(*wanted) : "too many");
  if (tensor->size > 0) CTXGEN_CHECK(not_null(tensor->data, "the tensor's data"));
  return Tensor::borrow(type, dims, nullptr,
                        std::span(static_cast<const std::byte*>(tensor->data), tensor->size));
}

Status describe_tensor(const Tensor& tensor, ctxgen_tensor* out) {
  CTXGEN_CHECK(not_null(out, "tensor"));
  if (out->struct_size < sizeof(ctxgen_tensor))
    return fail(ErrorCode::kInvalidArgument, "tensor: struct_size is {}, expected {}",
                out->struct_size, sizeof(ctxgen_tensor));
  out->type = static_cast<std::int32_t>(tensor.type());
  out->rank = tensor.rank();
  out->dims = tensor.dims().begin();
  out->data = tensor.is_string() ? nullptr : tensor.bytes().data();
  out->size = tensor.is_string() ? 0 : tensor.bytes().size();
  return {};
}

}  // namespace ctxgen::capi

extern "C" {

ctxgen_status* ctxgen_value_create_tensor(const ctxgen_tensor* tensor, ctxgen_value** value) {
  return create(value, [&]() -> Result<RuntimeValue> {
    const Tensor borrowed = CTXGEN_TRY(ctxgen::capi::borrow_tensor(tensor));
    Tensor copy = CTXGEN_TRY(Tensor::allocate(borrowed.type(), borrowed.dims()));
    if (tensor->size > 0) std::memcpy(copy.mutable_bytes().data(), tensor->data, tensor->size);
    return RuntimeValue(std::move(copy));
  });
}

ctxgen_status* ctxgen_value_create_strings(const int64_t* dims, size_t rank,
                                           const char* const* texts, const size_t* sizes,
                                           size_t count, ctxgen_value** value) {
  return create(value, [&]() -> Result<RuntimeValue> {
    const Dims shape = CTXGEN_TRY(dims_of(dims, rank));
    const auto wanted = checked_element_count(shape);
    if (!wanted || *wanted != count)
      return fail(ErrorCode::kInvalidArgument, "{} strings do not fill {}", count,
                  to_string(shape));
    if (count > 0) CTXGEN_CHECK(not_null(texts, "texts"));
    std::vector<std::string> strings;
    for (size_t i = 0; i < count; ++i) {
      CTXGEN_CHECK(not_null(texts[i], "a text"));
      strings.emplace_back(texts[i], sizes != nullptr ? sizes[i] : std::strlen(texts[i]));
    }
    return RuntimeValue(Tensor::of_strings(shape, std::move(strings)));
  });
}

ctxgen_status* ctxgen_value_create_sequence(int32_t element_type, const ctxgen_value* const* items,
                                            size_t count, ctxgen_value** value) {
  return create(value, [&]() -> Result<RuntimeValue> {
    if (element_type != 0 && !ctxgen::is_known_data_type(element_type))
      return fail(ErrorCode::kInvalidArgument, "data type {} is not known", element_type);
    if (count > 0) CTXGEN_CHECK(not_null(items, "items"));
    auto sequence = std::make_shared<SequenceValue>();
    sequence->element = static_cast<DataType>(element_type);
    for (size_t i = 0; i < count; ++i) {
      CTXGEN_CHECK(check_item(items[i], sequence->element));
      sequence->items.push_back(items[i]->value);
    }
    return RuntimeValue(std::move(sequence));
  });
}

ctxgen_status* ctxgen_value_create_map(const ctxgen_value* keys, const ctxgen_value* values,
                                       ctxgen_value** value) {
  return create(value, [&]() -> Result<RuntimeValue> {
    auto map = std::make_shared<MapValue>();
    map->keys = CTXGEN_TRY(tensor_in(keys, "keys"));
    map->values = CTXGEN_TRY(tensor_in(values, "values"));
    const DataType type = map->keys.type();
    if (type != DataType::kInt64 && type != DataType::kString)
      return fail(ErrorCode::kInvalidArgument, "keys are {}, expected int64 or string",
                  name_of(type));
    if (map->keys.rank() != 1 || map->keys.dims() != map->values.dims())
      return fail(ErrorCode::kInvalidArgument, "keys {} and values {}: expected one length",
                  to_string(map->keys.dims()), to_string(map->values.dims()));
    const bool ascends = type == DataType::kString
                             ? std::ranges::is_sorted(map->keys.strings(), std::less_equal())
                             : std::ranges::is_sorted(map->keys.elements<std::int64_t>());
    if (!ascends) return fail(ErrorCode::kInvalidArgument, "the keys do not ascend");
    return RuntimeValue(std::shared_ptr<const MapValue>(std::move(map)));
  });
}

ctxgen_status* ctxgen_value_create_empty_optional(ctxgen_value** value) {
  return create(value, []() -> Result<RuntimeValue> { return RuntimeValue::empty_optional(); });
}

void ctxgen_value_release(ctxgen_value* value) { delete value; }

ctxgen_value_kind ctxgen_value_kind_of(const ctxgen_value* value) {
  using Kind = RuntimeValue::Kind;
  switch (value == nullptr ? Kind::kNothing : value->value.kind()) {
    case Kind::kTensor: return CTXGEN_KIND_TENSOR;
    case Kind::kSequence: return CTXGEN_KIND_SEQUENCE;
    case Kind::kMap: return CTXGEN_KIND_MAP;
    case Kind::kEmptyOptional: return CTXGEN_KIND_OPTIONAL;
    case Kind::kNothing: break;
  }
  return CTXGEN_KIND_UNKNOWN;
}

ctxgen_status* ctxgen_value_tensor(const ctxgen_value* value, ctxgen_tensor* tensor) {
  return guarded("reading a value", [&]() -> Status {
    CTXGEN_CHECK(tensor_in(value, "value"));
    return ctxgen::capi::describe_tensor(value->value.tensor(), tensor);
  });
}

ctxgen_status* ctxgen_value_string(const ctxgen_value* value, size_t index, const char** text,
                                   size_t* size) {
  return guarded("reading a string", [&]() -> Status {
    CTXGEN_CHECK(not_null(text, "text"));
    CTXGEN_CHECK(not_null(size, "size"));
    const Tensor tensor = CTXGEN_TRY(tensor_in(value, "value"));
    if (!tensor.is_string())
      return fail(ErrorCode::kInvalidArgument, "the tensor is {}, expected strings",
                  name_of(tensor.type()));
    const auto strings = tensor.strings();
    if (index >= strings.size())
      return fail(ErrorCode::kInvalidArgument, "no string {}: there are {}", index, strings.size());
    *text = strings[index].c_str();
    *size = strings[index].size();
    return {};
  });
}

size_t ctxgen_value_item_count(const ctxgen_value* value) {
  using Kind = RuntimeValue::Kind;
  const Kind kind = value == nullptr ? Kind::kNothing : value->value.kind();
  if (kind == Kind::kSequence) return value->value.sequence().items.size();
  return kind == Kind::kMap ? 2 : 0;
}

ctxgen_status* ctxgen_value_create_item(const ctxgen_value* value, size_t index,
                                        ctxgen_value** item) {
  return create(item, [&]() -> Result<RuntimeValue> {
    CTXGEN_CHECK(not_null(value, "value"));
    if (index >= ctxgen_value_item_count(value))
      return fail(ErrorCode::kInvalidArgument, "no item {}: there are {}", index,
                  ctxgen_value_item_count(value));
    if (value->value.kind() == RuntimeValue::Kind::kSequence)
      return value->value.sequence().items[index];
    return RuntimeValue(index == 0 ? value->value.map().keys : value->value.map().values);
  });
}

}  // extern "C"
