#include "ctxgen/base/data_type.h"

#include <array>

namespace ctxgen {
namespace {

struct TypeRow {
  std::string_view name;
  unsigned bits;
};

// Indexed by TensorProto.DataType.
constexpr std::array<TypeRow, 27> kTypes{{
    {"undefined", 0},
    {"float32", 32},
    {"uint8", 8},
    {"int8", 8},
    {"uint16", 16},
    {"int16", 16},
    {"int32", 32},
    {"int64", 64},
    {"string", 0},
    {"bool", 8},
    {"float16", 16},
    {"float64", 64},
    {"uint32", 32},
    {"uint64", 64},
    {"complex64", 64},
    {"complex128", 128},
    {"bfloat16", 16},
    {"float8_e4m3fn", 8},
    {"float8_e4m3fnuz", 8},
    {"float8_e5m2", 8},
    {"float8_e5m2fnuz", 8},
    {"uint4", 4},
    {"int4", 4},
    {"float4_e2m1", 4},
    {"float8_e8m0", 8},
    {"uint2", 2},
    {"int2", 2},
}};

}  // namespace

bool is_known_data_type(std::int64_t number) {
  return number > 0 && number < static_cast<std::int64_t>(kTypes.size());
}

unsigned bits_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].bits : 0;
}

std::string_view name_of(DataType type) {
  const auto index = static_cast<std::size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : "undefined";
}

std::optional<DataType> data_type_from_name(std::string_view name) {
  for (std::size_t i = 1; i < kTypes.size(); ++i)
    if (kTypes[i].name == name) return static_cast<DataType>(i);
  return std::nullopt;
}

}  // namespace ctxgen
