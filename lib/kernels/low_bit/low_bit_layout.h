#pragma once

#include <algorithm>
#include <cstdint>

#include "ctxgen/kernels/low_bit.h"

namespace ctxgen::kernels {

/// The numbers of the packed form (low_bit.h). Bytes, if not said otherwise.
struct LowBitLayout {
  explicit LowBitLayout(const LowBitMatrix& matrix)
      : blocks(matrix.blocks()),
        tiles((matrix.n + kLowBitColumns - 1) / kLowBitColumns),
        block_words(matrix.block * matrix.bits / 32),
        block_bytes((block_words + 1) * kLowBitColumns * 4),
        zeros_offset(blocks * block_bytes) {
    const std::int64_t zero_bytes = matrix.zeros == ZeroPoints::kMiddle    ? 0
                                    : matrix.zeros == ZeroPoints::kInteger ? 1
                                                                           : 4;
    constexpr std::int64_t kAlignment = 64;
    tile_bytes = zeros_offset +
                 (blocks * kLowBitColumns * zero_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::int64_t blocks, tiles;  // of a column; of the matrix
  std::int64_t block_words;    // of a column in a block
  std::int64_t block_bytes;
  std::int64_t zeros_offset;  // in a tile
  std::int64_t tile_bytes = 0;
};

}  // namespace ctxgen::kernels
