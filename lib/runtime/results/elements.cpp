#include "ctxgen/runtime/elements.h"

#include <cstring>

#include "ctxgen/base/half.h"

namespace ctxgen {
namespace {

template <class T>
T load(const Tensor& tensor, std::int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes().data() + static_cast<std::size_t>(index) * sizeof(T),
              sizeof(T));
  return value;
}

/// Packed elements, low bits first.
int packed(const Tensor& tensor, std::int64_t index, unsigned bits, bool is_signed) {
  const auto position = static_cast<std::uint64_t>(index) * bits;
  const auto byte = std::to_integer<unsigned>(tensor.bytes()[position / 8]);
  const auto value = static_cast<int>((byte >> (position % 8)) & ((1U << bits) - 1));
  const int half = 1 << (bits - 1);
  return is_signed && value >= half ? value - 2 * half : value;
}

}  // namespace

bool ElementReader::has_numbers(DataType type) {
  switch (type) {
    case DataType::kFloat:
    case DataType::kDouble:
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
    case DataType::kBool:
    case DataType::kInt4:
    case DataType::kUint4:
    case DataType::kInt2:
    case DataType::kUint2: return true;
    default: return false;
  }
}

bool ElementReader::is_floating(DataType type) {
  return type == DataType::kFloat || type == DataType::kDouble || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

double ElementReader::at(std::int64_t index) const {
  switch (tensor_.type()) {
    case DataType::kFloat: return static_cast<double>(load<float>(tensor_, index));
    case DataType::kDouble: return load<double>(tensor_, index);
    case DataType::kFloat16:
      return static_cast<double>(float16_to_float(load<std::uint16_t>(tensor_, index)));
    case DataType::kBfloat16:
      return static_cast<double>(bfloat16_to_float(load<std::uint16_t>(tensor_, index)));
    case DataType::kInt8: return load<std::int8_t>(tensor_, index);
    case DataType::kInt16: return load<std::int16_t>(tensor_, index);
    case DataType::kInt32: return load<std::int32_t>(tensor_, index);
    case DataType::kInt64: return static_cast<double>(load<std::int64_t>(tensor_, index));
    case DataType::kUint8:
    case DataType::kBool: return load<std::uint8_t>(tensor_, index);
    case DataType::kUint16: return load<std::uint16_t>(tensor_, index);
    case DataType::kUint32: return load<std::uint32_t>(tensor_, index);
    case DataType::kUint64: return static_cast<double>(load<std::uint64_t>(tensor_, index));
    case DataType::kInt4: return packed(tensor_, index, 4, true);
    case DataType::kUint4: return packed(tensor_, index, 4, false);
    case DataType::kInt2: return packed(tensor_, index, 2, true);
    case DataType::kUint2: return packed(tensor_, index, 2, false);
    default: break;
  }
  CTXGEN_ASSERT(!"has_numbers() was not asked");
  return 0;
}

}  // namespace ctxgen
