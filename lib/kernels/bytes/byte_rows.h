#pragma once

#include <cstdint>

#include "bytes/byte_layout.h"

namespace ctxgen::kernels {

/// Where the rows of a product are prepared: first the sums of their elements (s32), where the matrix has
/// zero points, then the rows as the instruction set wants them: groups of so many bytes.
struct ByteRows {
  ByteRows(const ByteMatrix& matrix, std::int64_t rows, std::int64_t group_bytes)
      : stride(ByteLayout(matrix).groups * group_bytes),
        values_offset(matrix.zeros ? (rows * 4 + 63) / 64 * 64 : 0) {}
  std::int64_t stride;         // bytes from row to row
  std::int64_t values_offset;  // bytes
};

/// Bytes of four elements of a row, at most: as 16-bit integers.
inline constexpr std::int64_t kMostGroupBytes = 8;

/// The largest bytes of eight elements each, a step, of blocks of rows: a line of bytes per block, after the rows.
inline constexpr std::int64_t kRowsOfBlock = 4;
inline constexpr std::int64_t kStepsOfLine = 64;  // that lines are filled up to
struct ByteBlocks {
  ByteBlocks(const ByteMatrix& matrix, std::int64_t rows)
      : line((ByteLayout(matrix).groups / 2 + kStepsOfLine - 1) / kStepsOfLine * kStepsOfLine),
        count(rows / kRowsOfBlock + (rows % kRowsOfBlock == 0 ? 0 : 1)) {}
  std::int64_t line;   // bytes from block to block
  std::int64_t count;  // of blocks
};

}  // namespace ctxgen::kernels
