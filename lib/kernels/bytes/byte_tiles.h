#pragma once

#include <cstddef>
#include <cstdint>

// Sums of products of bytes in the tiles of AMX (Intel's Software Developer's Manual, volume 1, chapter 18).
namespace ctxgen::kernels {

/// Elements of a row in a tile, at most.
inline constexpr std::int64_t kTileDepth = 64;
/// Rows that are multiplied at once where there are so many.
inline constexpr std::int64_t kTileRows = 32;

/// The shapes of the calling thread's tiles, which it keeps from one call to the next: giving them takes as long as
/// multiplying three tiles. Requires  may_use_tiles().
class TileShapes {
 public:
  TileShapes() = default;
  TileShapes(const TileShapes&) = delete;
  TileShapes& operator=(const TileShapes&) = delete;
  ~TileShapes();
  /// See set_amx_shapes().
  void set(std::int64_t first, std::int64_t second, std::int64_t depth);

 private:
  std::int64_t first_ = -1, second_ = -1, depth_ = -1;
};

struct ByteTiles {
  /// [count, stride]. Bytes from 4 * groups on up to the next multiple of kTileDepth are read, whatever they are, where
  /// there are more than kTileDepth elements.
  const std::uint8_t* rows = nullptr;
  /// The last kTileRows rows again, or all if there are fewer: what follows these may be read. Null: those above.
  const std::uint8_t* last_rows = nullptr;
  std::int64_t stride = 0, last_stride = 0;  // multiples of 4
  std::int64_t count = 0;                    // at least 1
  const std::byte* words =
      nullptr;  // [groups, kByteColumns, 4], s8: a tile of columns (byte_product.h)
  std::int64_t groups = 0;
  bool narrow = false;           // of the columns only the first half is of interest
  std::int32_t* sums = nullptr;  // [count, kByteColumns], written
};

/// The exact sums, in 32 bits that wrap around. Requires  may_use_tiles(). Any thread: what tiles hold is its own.
void sum_in_tiles(const ByteTiles& tiles, TileShapes& shapes);

}  // namespace ctxgen::kernels
