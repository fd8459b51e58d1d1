#pragma once

#include <cstdint>

#include "ctxgen/kernels/byte_product.h"

namespace ctxgen::kernels {

/// The numbers of the packed form (byte_product.h). Bytes, if not said otherwise.
struct ByteLayout {
  explicit ByteLayout(const ByteMatrix& matrix)
      : groups((matrix.k + 3) / 4),
        tiles((matrix.n + kByteColumns - 1) / kByteColumns),
        sums_offset(groups * kByteColumns * 4),
        zeros_offset(sums_offset + kByteColumns * 4),
        tile_bytes(zeros_offset + (matrix.zeros ? kByteColumns * 4 : 0)),
        steps(matrix.limits ? groups / 2 : 0) {}
  std::int64_t groups;  // of four elements of a column
  std::int64_t tiles;
  std::int64_t sums_offset, zeros_offset;  // in a tile
  std::int64_t tile_bytes;
  std::int64_t steps;  // that have limits
};

}  // namespace ctxgen::kernels
