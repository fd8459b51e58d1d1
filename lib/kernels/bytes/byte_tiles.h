#pragma once

#include <cstddef>
#include <cstdint>

// Sums of products of bytes in the tiles of AMX (Intel's Software Developer's Manual, volume 1, chapter 18).
namespace ctxgen::kernels {

/// Elements of a row in a tile.
inline constexpr std::int64_t kTileDepth = 64;

struct ByteTiles {
  const std::uint8_t* rows = nullptr;  // [count, stride], of which those from 4 * groups on are 0
  std::int64_t stride = 0;             // a multiple of kTileDepth
  std::int64_t count = 0;              // at least 1
  const std::byte* words =
      nullptr;  // [groups, kByteColumns, 4], s8: a tile of columns (byte_product.h)
  std::int64_t groups = 0;
  std::int32_t* sums = nullptr;  // [count, kByteColumns], written
};

/// The exact sums, in 32 bits that wrap around. Requires  may_use_tiles(). Any thread: what tiles hold is its own.
void sum_in_tiles(const ByteTiles& tiles);

}  // namespace ctxgen::kernels
