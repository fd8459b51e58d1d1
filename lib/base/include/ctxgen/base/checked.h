#pragma once

#include <cstdint>
#include <optional>

namespace ctxgen {

/// True if [offset, offset + length) is inside a region of `size` bytes; never wraps.
[[nodiscard]] constexpr bool range_fits(std::uint64_t offset, std::uint64_t length,
                                        std::uint64_t size) {
  return offset <= size && length <= size - offset;
}

/// a + b, or nothing if that passes 2^64 - 1.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// a * b, or nothing if that passes 2^64 - 1.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The next multiple of `alignment` (a power of two) at or above `value`.
[[nodiscard]] constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace ctxgen
