#include "bytes/byte_tiles.h"

#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/amx.h"
#include "ctxgen/kernels/byte_product.h"

namespace ctxgen::kernels {

#if CTXGEN_HAVE_AMX
namespace {

constexpr std::int64_t kTileGroups = kTileDepth / 4;
constexpr std::int64_t kWordRow = kByteColumns * 4;  // bytes

/// Adds a depth of tiles: rows at `a` by words at `words`.
template <bool kTwo>
[[gnu::always_inline]] inline void add_depth(const std::uint8_t* a, std::int64_t stride,
                                             const std::byte* words) {
  CTXGEN_AMX_LOAD(4, a, stride);
  CTXGEN_AMX_LOAD(6, words, kWordRow);
  CTXGEN_AMX_ADD(tdpbusd, 0, 4, 6);
  CTXGEN_AMX_LOAD(7, words + kAmxBytes, kWordRow);
  CTXGEN_AMX_ADD(tdpbusd, 1, 4, 7);
  if constexpr (kTwo) {
    CTXGEN_AMX_LOAD(5, a + kAmxRows * stride, stride);
    CTXGEN_AMX_ADD(tdpbusd, 2, 5, 6);
    CTXGEN_AMX_ADD(tdpbusd, 3, 5, 7);
  }
}

/// Up to 16 rows from `row` on, or more than 16 up to 32. `last`: the words of the last depth, filled up with zeros.
template <bool kTwo>
void sum_block(const ByteTiles& t, std::int64_t row, const std::byte* last) {
  CTXGEN_AMX_ZERO(0);
  CTXGEN_AMX_ZERO(1);
  if constexpr (kTwo) {
    CTXGEN_AMX_ZERO(2);
    CTXGEN_AMX_ZERO(3);
  }
  const std::uint8_t* a = t.rows + row * t.stride;
  const std::byte* words = t.words;
  for (std::int64_t left = t.groups / kTileGroups; left > 0; --left) {
    add_depth<kTwo>(a, t.stride, words);
    a += kTileDepth;
    words += kTileGroups * kWordRow;
  }
  if (t.groups % kTileGroups != 0) add_depth<kTwo>(a, t.stride, last);
  std::int32_t* to = t.sums + row * kByteColumns;
  CTXGEN_AMX_STORE(0, to, kWordRow);
  CTXGEN_AMX_STORE(1, to + kAmxRows, kWordRow);
  if constexpr (kTwo) {
    CTXGEN_AMX_STORE(2, to + kAmxRows * kByteColumns, kWordRow);
    CTXGEN_AMX_STORE(3, to + kAmxRows * kByteColumns + kAmxRows, kWordRow);
  }
}

}  // namespace

void sum_in_tiles(const ByteTiles& t) {
  constexpr std::int64_t kBlock = 2 * kAmxRows;
  alignas(64) std::byte last[kTileGroups * kWordRow] = {};
  const std::int64_t whole = t.groups / kTileGroups * kTileGroups;
  std::memcpy(last, t.words + whole * kWordRow,
              static_cast<std::size_t>((t.groups - whole) * kWordRow));
  const std::int64_t first = std::min(t.count, kAmxRows);
  set_amx_shapes(first, std::min(t.count - first, kAmxRows), kTileDepth);
  if (t.count <= kAmxRows) {
    sum_block<false>(t, 0, last);
  } else {
    // The last block takes rows again that the one before it took: all have the same shape.
    const std::int64_t last_row = std::max<std::int64_t>(t.count - kBlock, 0);
    for (std::int64_t row = 0; row < last_row; row += kBlock) sum_block<true>(t, row, last);
    sum_block<true>(t, last_row, last);
  }
  release_amx();
}

#else

void sum_in_tiles(const ByteTiles& /*tiles*/) {}

#endif

}  // namespace ctxgen::kernels
