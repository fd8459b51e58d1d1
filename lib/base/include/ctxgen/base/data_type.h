#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ctxgen {

/// Element types, numbered as TensorProto.DataType (onnx.proto).
enum class DataType : std::int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUint2 = 25,
  kInt2 = 26,
};

/// Whether `number` is one of the enumerators above other than kUndefined.
[[nodiscard]] bool is_known_data_type(std::int64_t number);

/// Whether its elements are integers of 8 bits.
[[nodiscard]] constexpr bool is_byte(DataType type) {
  return type == DataType::kUint8 || type == DataType::kInt8;
}

/// Bits of one element as stored in raw_data; 0 for kString and kUndefined.
[[nodiscard]] unsigned bits_of(DataType type);

/// NumPy-like name: "float32", "int4", "bfloat16", "float8_e4m3fn", "string".
[[nodiscard]] std::string_view name_of(DataType type);
[[nodiscard]] std::optional<DataType> data_type_from_name(std::string_view name);

/// The type of a C++ element: float, double, (u)intN_t, bool.
template <class T>
inline constexpr DataType kDataTypeOf = DataType::kUndefined;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::kFloat;
template <>
inline constexpr DataType kDataTypeOf<double> = DataType::kDouble;
template <>
inline constexpr DataType kDataTypeOf<std::int8_t> = DataType::kInt8;
template <>
inline constexpr DataType kDataTypeOf<std::uint8_t> = DataType::kUint8;
template <>
inline constexpr DataType kDataTypeOf<std::int16_t> = DataType::kInt16;
template <>
inline constexpr DataType kDataTypeOf<std::uint16_t> = DataType::kUint16;
template <>
inline constexpr DataType kDataTypeOf<std::int32_t> = DataType::kInt32;
template <>
inline constexpr DataType kDataTypeOf<std::uint32_t> = DataType::kUint32;
template <>
inline constexpr DataType kDataTypeOf<std::int64_t> = DataType::kInt64;
template <>
inline constexpr DataType kDataTypeOf<std::uint64_t> = DataType::kUint64;
template <>
inline constexpr DataType kDataTypeOf<bool> = DataType::kBool;

}  // namespace ctxgen
