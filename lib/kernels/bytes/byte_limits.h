#pragma once

#include <cstddef>
#include <cstdint>

#include "bytes/byte_layout.h"

namespace ctxgen::kernels {

/// What is read after the last limit, at most: a vector.
inline constexpr std::int64_t kAfterLimits = 64;

/// The limits of a packed matrix (byte_product.h): two lines of ByteLayout::steps bytes per half of a tile.
struct LimitLines {
  LimitLines(const ByteMatrix& matrix, const std::byte* packed)
      : steps(ByteLayout(matrix).steps),
        first(reinterpret_cast<const std::uint8_t*>(packed) +
              ByteLayout(matrix).tiles * ByteLayout(matrix).tile_bytes) {}
  /// The first one of `column` of a tile.
  [[nodiscard]] const std::uint8_t* line(std::int64_t tile, std::size_t column) const {
    constexpr std::int64_t kHalves = kByteColumns / kLimitColumns;
    return first + (tile * kHalves + static_cast<std::int64_t>(column) / kLimitColumns) * 2 * steps;
  }
  std::int64_t steps;
  const std::uint8_t* first;
};

}  // namespace ctxgen::kernels
