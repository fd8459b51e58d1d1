#pragma once

#include <bit>
#include <cstdint>

namespace ctxgen {

/// IEEE binary16 and bfloat16 as bit patterns, converted by integer arithmetic, round to nearest
/// even, NaN kept NaN.
[[nodiscard]] inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
[[nodiscard]] inline std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
[[nodiscard]] inline float float16_to_float(std::uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}
[[nodiscard]] inline std::uint16_t float_to_float16(float value) {
  return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
}

}  // namespace ctxgen
