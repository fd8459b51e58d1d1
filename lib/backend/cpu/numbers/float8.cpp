#include "numbers/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ctxgen::cpu {
namespace {

// Layout of a small float. All have a sign bit on top.
struct Format {
  DataType type;
  int mantissa_bits;
  int bias;
  unsigned max_code;  // the largest finite magnitude
  unsigned nan_code;  // magnitude bits of NaN; 0: the type has none
  unsigned inf_code;  // magnitude bits of infinity; 0: none
  bool nan_is_negative_zero;
  unsigned bits;
};

constexpr Format kFormats[] = {
    {DataType::kFloat8E4M3FN, 3, 7, 0x7e, 0x7f, 0, false, 8},
    {DataType::kFloat8E4M3FNUZ, 3, 8, 0x7f, 0, 0, true, 8},
    {DataType::kFloat8E5M2, 2, 15, 0x7b, 0x7e, 0x7c, false, 8},
    {DataType::kFloat8E5M2FNUZ, 2, 16, 0x7f, 0, 0, true, 8},
    {DataType::kFloat4E2M1, 1, 1, 0x7, 0, 0, false, 4},
};

const Format* format_of(DataType type) {
  const auto* found = std::ranges::find(kFormats, type, &Format::type);
  return found == std::end(kFormats) ? nullptr : found;
}

float magnitude(const Format& format, unsigned code) {
  const unsigned mantissa = code & ((1u << format.mantissa_bits) - 1);
  const int exponent = static_cast<int>(code >> format.mantissa_bits);
  const int scale = 1 - format.bias - format.mantissa_bits;
  if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), scale);
  return std::ldexp(static_cast<float>(mantissa | (1u << format.mantissa_bits)),
                    scale + exponent - 1);
}

float decode(const Format& format, unsigned code) {
  const unsigned sign = 1u << (format.bits - 1);
  const unsigned rest = code & (sign - 1);
  if (format.nan_is_negative_zero
          ? code == sign
          : (format.inf_code != 0 ? rest > format.inf_code
                                  : format.nan_code != 0 && rest == format.nan_code))
    return std::numeric_limits<float>::quiet_NaN();
  float value = magnitude(format, rest);
  if (format.inf_code != 0 && rest == format.inf_code)
    value = std::numeric_limits<float>::infinity();
  return (code & sign) != 0 ? -value : value;
}

// The nearest code, ties to the even one. Rounds up past max_code where the value is too large.
unsigned nearest_code(const Format& format, float value) {
  if (value == 0) return 0;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int least = 1 - format.bias;
  const int step = std::max(exponent - 1, least) - format.mantissa_bits;
  const auto steps = static_cast<unsigned>(std::nearbyint(std::ldexp(value, -step)));
  const int shift = step + format.mantissa_bits - least;
  return steps + (static_cast<unsigned>(shift) << format.mantissa_bits);
}

unsigned encode(const Format& format, float value, bool saturate) {
  const unsigned sign_bit = 1u << (format.bits - 1);
  const unsigned sign = std::signbit(value) ? sign_bit : 0;
  // Where the type has no NaN (float4), it becomes -0, as in the data of ONNX.
  if (std::isnan(value))
    return format.nan_is_negative_zero || format.nan_code == 0 ? sign_bit : sign | format.nan_code;
  const float size = std::abs(value);
  // Doubling the largest value already rounds past it, so no code overflows below.
  const unsigned code = size > 2 * magnitude(format, format.max_code) ? format.max_code + 1
                                                                      : nearest_code(format, size);
  if (code > format.max_code) {
    if (saturate || format.bits == 4) return sign | format.max_code;
    if (format.nan_is_negative_zero) return sign_bit;
    return sign | (format.inf_code != 0 ? format.inf_code : format.nan_code);
  }
  return code == 0 && format.nan_is_negative_zero ? 0 : sign | code;
}

bool is_signed_packed(DataType type) { return type == DataType::kInt4 || type == DataType::kInt2; }

unsigned read_bits(const std::byte* data, std::int64_t index, unsigned bits) {
  const std::int64_t per_byte = 8 / bits;
  const unsigned shift = static_cast<unsigned>(index % per_byte) * bits;
  return (std::to_integer<unsigned>(data[index / per_byte]) >> shift) & ((1u << bits) - 1);
}

void write_bits(std::byte* data, std::int64_t index, unsigned bits, unsigned code) {
  const std::int64_t per_byte = 8 / bits;
  const unsigned shift = static_cast<unsigned>(index % per_byte) * bits;
  data[index / per_byte] |= static_cast<std::byte>((code & ((1u << bits) - 1)) << shift);
}

}  // namespace

bool is_small_float(DataType type) { return format_of(type) != nullptr; }
bool is_packed_int(DataType type) {
  return type == DataType::kInt4 || type == DataType::kUint4 || type == DataType::kInt2 ||
         type == DataType::kUint2;
}
DataType unpacked_type(DataType type) {
  if (is_small_float(type)) return DataType::kFloat;
  if (!is_packed_int(type)) return type;
  return is_signed_packed(type) ? DataType::kInt8 : DataType::kUint8;
}

void unpack_small(const Tensor& tensor, Tensor& wide) {
  const unsigned bits = bits_of(tensor.type());
  const std::byte* data = tensor.bytes().data();
  const Format* format = format_of(tensor.type());
  const std::int64_t count = tensor.element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned code = read_bits(data, i, bits);
    if (format != nullptr) {
      mutable_data_of<float>(wide)[i] = decode(*format, code);
    } else {
      const bool negative = is_signed_packed(tensor.type()) && (code >> (bits - 1)) != 0;
      mutable_data_of<std::uint8_t>(wide)[i] =
          static_cast<std::uint8_t>(negative ? code | (0xffu << bits) : code);
    }
  }
}

void pack_small(const Tensor& tensor, Tensor& packed, bool saturate) {
  const unsigned bits = bits_of(packed.type());
  std::ranges::fill(packed.mutable_bytes(), std::byte{0});
  std::byte* data = packed.mutable_bytes().data();
  const Format* format = format_of(packed.type());
  const std::int64_t count = tensor.element_count();
  for (std::int64_t i = 0; i < count; ++i)
    write_bits(data, i, bits,
               format != nullptr ? encode(*format, data_of<float>(tensor)[i], saturate)
                                 : data_of<std::uint8_t>(tensor)[i]);
}

}  // namespace ctxgen::cpu
