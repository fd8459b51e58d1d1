#include "bytes/byte_tiles.h"

#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/amx.h"
#include "ctxgen/kernels/byte_product.h"

namespace ctxgen::kernels {

#if CTXGEN_HAVE_AMX

TileShapes::~TileShapes() {
  if (depth_ >= 0) release_amx();
}

void TileShapes::set(std::int64_t first, std::int64_t second, std::int64_t depth) {
  if (first == first_ && second == second_ && depth == depth_) return;
  set_amx_shapes(first, second, depth);
  first_ = first;
  second_ = second;
  depth_ = depth;
}

namespace {

static_assert(kTileRows == 2 * kAmxRows);
constexpr std::int64_t kTileGroups = kTileDepth / 4;
constexpr std::int64_t kWordRow = kByteColumns * 4;  // bytes

/// Adds a depth of tiles: rows at `a` by words at `words`. kTwo: more than 16 rows; kWide: more than 16 columns.
template <bool kTwo, bool kWide>
[[gnu::always_inline]] inline void add_depth(const std::uint8_t* a, std::int64_t stride,
                                             const std::byte* words) {
  CTXGEN_AMX_LOAD(4, a, stride);
  CTXGEN_AMX_LOAD(6, words, kWordRow);
  CTXGEN_AMX_ADD(tdpbusd, 0, 4, 6);
  if constexpr (kWide) {
    CTXGEN_AMX_LOAD(7, words + kAmxBytes, kWordRow);
    CTXGEN_AMX_ADD(tdpbusd, 1, 4, 7);
  }
  if constexpr (kTwo) {
    CTXGEN_AMX_LOAD(5, a + kAmxRows * stride, stride);
    CTXGEN_AMX_ADD(tdpbusd, 2, 5, 6);
    if constexpr (kWide) CTXGEN_AMX_ADD(tdpbusd, 3, 5, 7);
  }
}

/// Up to 16 rows at `a`, or more than 16 up to 32, whose sums go to `to`. `last`: the words of the last depth, filled up with
/// zeros, or null.
template <bool kTwo, bool kWide>
void sum_block(const ByteTiles& t, const std::uint8_t* a, std::int64_t stride,
               const std::byte* last, std::int32_t* to) {
  CTXGEN_AMX_ZERO(0);
  if constexpr (kWide) CTXGEN_AMX_ZERO(1);
  if constexpr (kTwo) CTXGEN_AMX_ZERO(2);
  if constexpr (kTwo && kWide) CTXGEN_AMX_ZERO(3);
  const std::byte* words = t.words;
  for (std::int64_t left = t.groups / kTileGroups; left > 0; --left) {
    add_depth<kTwo, kWide>(a, stride, words);
    a += kTileDepth;
    words += kTileGroups * kWordRow;
  }
  if (last != nullptr) add_depth<kTwo, kWide>(a, stride, last);
  CTXGEN_AMX_STORE(0, to, kWordRow);
  if constexpr (kWide) CTXGEN_AMX_STORE(1, to + kAmxRows, kWordRow);
  if constexpr (kTwo) {
    to += kAmxRows * kByteColumns;
    CTXGEN_AMX_STORE(2, to, kWordRow);
    if constexpr (kWide) CTXGEN_AMX_STORE(3, to + kAmxRows, kWordRow);
  }
}

/// All rows, 32 at a time. The last block takes rows again that the one before it took: all have the same shape.
template <bool kWide>
void sum_rows(const ByteTiles& t, const std::byte* last) {
  const std::int64_t last_row = std::max<std::int64_t>(t.count - kTileRows, 0);
  for (std::int64_t row = 0; row < last_row; row += kTileRows)
    sum_block<true, kWide>(t, t.rows + row * t.stride, t.stride, last, t.sums + row * kByteColumns);
  const bool apart = t.last_rows != nullptr;
  const std::uint8_t* a = apart ? t.last_rows : t.rows + last_row * t.stride;
  const std::int64_t stride = apart ? t.last_stride : t.stride;
  std::int32_t* to = t.sums + last_row * kByteColumns;
  if (t.count <= kAmxRows)
    sum_block<false, kWide>(t, a, stride, last, to);
  else
    sum_block<true, kWide>(t, a, stride, last, to);
}

}  // namespace

void sum_in_tiles(const ByteTiles& t, TileShapes& shapes) {
  alignas(64) std::byte filled[kTileGroups * kWordRow];
  const std::byte* last = nullptr;
  const bool shallow = t.groups < kTileGroups;
  if (const std::int64_t left = t.groups % kTileGroups; shallow) {
    last = t.words;  // the tiles are as deep as they are
  } else if (left != 0) {
    const auto bytes = static_cast<std::size_t>(left * kWordRow);
    std::memcpy(filled, t.words + (t.groups - left) * kWordRow, bytes);
    std::memset(filled + bytes, 0, sizeof filled - bytes);
    last = filled;
  }
  const std::int64_t first = std::min(t.count, kAmxRows);
  shapes.set(first, std::min(t.count - first, kAmxRows), shallow ? t.groups * 4 : kTileDepth);
  if (t.narrow)
    sum_rows<false>(t, last);
  else
    sum_rows<true>(t, last);
}

#else

TileShapes::~TileShapes() = default;
void TileShapes::set(std::int64_t /*first*/, std::int64_t /*second*/, std::int64_t /*depth*/) {}
void sum_in_tiles(const ByteTiles& /*tiles*/, TileShapes& /*shapes*/) {}

#endif

}  // namespace ctxgen::kernels
