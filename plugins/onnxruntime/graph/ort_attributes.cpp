#include "graph/ort_attributes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace ctxgen::plugin {
namespace {

/// The bytes of an attribute that is not a number; the first call fails on purpose, and gives the size.
Result<std::vector<char>> read_bytes(const OrtApis& ort, const OrtOpAttr& attribute,
                                     OrtOpAttrType type) {
  std::size_t size = 0;
  if (OrtStatus* status = ort.api->ReadOpAttr(&attribute, type, nullptr, 0, &size))
    ort.api->ReleaseStatus(status);
  std::vector<char> bytes(size);
  if (size != 0)
    CTXGEN_CHECK(
        from_ort(*ort.api, ort.api->ReadOpAttr(&attribute, type, bytes.data(), size, &size)));
  return bytes;
}

template <class T>
Result<std::vector<T>> read_numbers(const OrtApis& ort, const OrtOpAttr& attribute,
                                    OrtOpAttrType type) {
  const std::vector<char> bytes = CTXGEN_TRY(read_bytes(ort, attribute, type));
  std::vector<T> numbers(bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(T));
  return numbers;
}

template <class T>
Status read_number(const OrtApis& ort, const OrtOpAttr& attribute, OrtOpAttrType type, T& number) {
  std::size_t size = 0;
  return from_ort(*ort.api, ort.api->ReadOpAttr(&attribute, type, &number, sizeof number, &size));
}

/// ONNX Runtime ends each of them with a zero.
std::vector<std::string> split(const std::vector<char>& bytes) {
  std::vector<std::string> strings;
  for (auto from = bytes.begin(); from != bytes.end();) {
    const auto end = std::find(from, bytes.end(), '\0');
    strings.emplace_back(from, end);
    from = end == bytes.end() ? end : end + 1;
  }
  return strings;
}

Status read_tensor_attribute(const OrtApis& ort, const OrtOpAttr& source, Attribute& attribute) {
  OrtValue* value = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->OpAttr_GetTensorAttributeAsOrtValue(&source, &value)));
  const std::unique_ptr<OrtValue, decltype(ort.api->ReleaseValue)> owner(value,
                                                                         ort.api->ReleaseValue);
  if (value == nullptr)
    return fail(ErrorCode::kUnsupported, "attribute \"{}\" has no tensor", attribute.name);
  attribute.tensors.push_back(CTXGEN_TRY(read_tensor(ort, *value, /*borrow=*/false)));
  return {};
}

Status read_content(const OrtApis& ort, const OrtOpAttr& source, OrtOpAttrType type,
                    Attribute& attribute) {
  switch (type) {
    case ORT_OP_ATTR_INT:
      attribute.kind = AttributeKind::kInt;
      return read_number(ort, source, type, attribute.i);
    case ORT_OP_ATTR_FLOAT:
      attribute.kind = AttributeKind::kFloat;
      return read_number(ort, source, type, attribute.f);
    case ORT_OP_ATTR_STRING: {
      attribute.kind = AttributeKind::kString;
      const std::vector<char> bytes = CTXGEN_TRY(read_bytes(ort, source, type));
      attribute.s.assign(bytes.begin(), bytes.end());
      return {};
    }
    case ORT_OP_ATTR_INTS:
      attribute.kind = AttributeKind::kInts;
      attribute.ints = CTXGEN_TRY(read_numbers<std::int64_t>(ort, source, type));
      return {};
    case ORT_OP_ATTR_FLOATS:
      attribute.kind = AttributeKind::kFloats;
      attribute.floats = CTXGEN_TRY(read_numbers<float>(ort, source, type));
      return {};
    case ORT_OP_ATTR_STRINGS:
      attribute.kind = AttributeKind::kStrings;
      attribute.strings = split(CTXGEN_TRY(read_bytes(ort, source, type)));
      return {};
    case ORT_OP_ATTR_GRAPH:
      attribute.kind = AttributeKind::kGraph;
      attribute.graphs.push_back(std::make_shared<Graph>());
      return {};
    case ORT_OP_ATTR_TENSOR:
      attribute.kind = AttributeKind::kTensor;
      return read_tensor_attribute(ort, source, attribute);
    default:
      return fail(ErrorCode::kUnsupported, "attribute \"{}\" is of a kind that is not known here",
                  attribute.name);
  }
}

Result<Tensor> read_strings(const OrtApis& ort, const OrtValue& value, const Dims& dims) {
  std::vector<std::string> strings(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < strings.size(); ++i) {
    std::size_t size = 0;
    CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetStringTensorElementLength(&value, i, &size)));
    strings[i].resize(size);
    if (size != 0)
      CTXGEN_CHECK(
          from_ort(*ort.api, ort.api->GetStringTensorElement(&value, size, i, strings[i].data())));
  }
  return Tensor::of_strings(dims, std::move(strings));
}

Result<Dims> read_dims(const OrtApis& ort, const OrtTensorTypeAndShapeInfo& info) {
  std::size_t rank = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetDimensionsCount(&info, &rank)));
  if (rank > kMaxRank)
    return fail(ErrorCode::kUnsupported, "a tensor of rank {}, at most {} is possible", rank,
                kMaxRank);
  std::array<std::int64_t, kMaxRank> dims{};
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetDimensions(&info, dims.data(), rank)));
  return Dims(std::span(dims).first(rank));
}

}  // namespace

Result<DataType> read_type(ONNXTensorElementDataType type) {
  if (is_known_data_type(type)) return static_cast<DataType>(type);
  return fail(ErrorCode::kUnsupported, "element type {} is not known here", static_cast<int>(type));
}

Result<Tensor> read_tensor(const OrtApis& ort, const OrtValue& value, bool borrow) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetTensorTypeAndShape(&value, &info)));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(ort.api->ReleaseTensorTypeAndShapeInfo)>
      owner(info, ort.api->ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetTensorElementType(info, &element)));
  const DataType type = CTXGEN_TRY(read_type(element));
  const Dims dims = CTXGEN_TRY(read_dims(ort, *info));
  const auto size =
      type == DataType::kString ? std::optional<std::uint64_t>(0) : checked_size_bytes(type, dims);
  if (!size || !checked_element_count(dims))
    return fail(ErrorCode::kResourceLimit, "a tensor of {} {} is too large", name_of(type),
                to_string(dims));
  if (type == DataType::kString) return read_strings(ort, value, dims);
  const void* data = nullptr;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->GetTensorData(&value, &data)));
  if (data == nullptr && *size != 0)
    return fail(ErrorCode::kUnsupported, "a tensor of {} {} without data", name_of(type),
                to_string(dims));
  const std::span bytes(static_cast<const std::byte*>(data), *size);
  if (borrow) return Tensor::borrow(type, dims, std::shared_ptr<const void>(), bytes);
  Tensor tensor = CTXGEN_TRY(Tensor::allocate(type, dims));
  std::ranges::copy(bytes, tensor.mutable_bytes().begin());
  return tensor;
}

Result<std::vector<Attribute>> read_attributes(const OrtApis& ort, const OrtNode& node) {
  std::size_t count = 0;
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetNumAttributes(&node, &count)));
  std::vector<const OrtOpAttr*> sources(count);
  CTXGEN_CHECK(from_ort(*ort.api, ort.api->Node_GetAttributes(&node, sources.data(), count)));
  std::vector<Attribute> attributes;
  for (const OrtOpAttr* source : sources) {
    if (source == nullptr) continue;  // an optional one that the node does not have
    const char* name = "";
    CTXGEN_CHECK(from_ort(*ort.api, ort.api->OpAttr_GetName(source, &name)));
    Attribute& attribute = attributes.emplace_back();
    attribute.name = name;
    OrtOpAttrType type = ORT_OP_ATTR_UNDEFINED;
    if (OrtStatus* status = ort.api->OpAttr_GetType(source, &type)) {
      ort.api->ReleaseStatus(status);
      type = ORT_OP_ATTR_UNDEFINED;
    }
    CTXGEN_CHECK(read_content(ort, *source, type, attribute));
  }
  // In order of their names: ONNX Runtime has them in a table that it hashes.
  std::ranges::sort(attributes, {}, &Attribute::name);
  return attributes;
}

}  // namespace ctxgen::plugin
