#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/low_bit.h"

namespace ctxgen::kernels {

/// Where a row of `a` is prepared for products that read packed blocks as they are.
///
/// A unit is what a sum runs over before its scale: a block, or part of one. Of each unit there is a
/// scale (kInt8), and what the zero points are multiplied by: minus the sum of the unit's numbers, or
/// kMiddle: that times the zero point (kInt8: an int32, else f32).
struct RowLayout {
  RowLayout(const LowBitMatrix& matrix, LowBitCompute compute, std::int64_t unit_length)
      : unit(unit_length),
        padded(matrix.blocks() * matrix.block),
        units(padded / unit),
        scales_offset(compute == LowBitCompute::kInt8 ? padded : padded * 4),
        zeros_offset(scales_offset + (compute == LowBitCompute::kInt8 ? units * 4 : 0)),
        row_bytes((zeros_offset + units * 4 + 63) / 64 * 64) {}
  std::int64_t unit, padded, units;
  std::int64_t scales_offset, zeros_offset, row_bytes;  // bytes
};

/// Where rows are prepared for AMX's tiles, in bfloat16, in groups of 16: tile after tile of `depth` numbers of each row, then
/// the steps of the rows, block by block. The last group is filled up with rows of zeros.
inline constexpr std::int64_t kRowsOfGroup = 16;
struct HalvesRows {
  explicit HalvesRows(const LowBitMatrix& matrix)
      : depth(std::min<std::int64_t>(matrix.block, 32)),
        padded(matrix.blocks() * matrix.block),
        tile_bytes(depth * 32),
        block_bytes(matrix.block * 32),
        steps_offset(padded * 32),
        group_bytes(steps_offset + matrix.blocks() * 64) {}
  std::int64_t depth, padded;
  std::int64_t tile_bytes, block_bytes, steps_offset, group_bytes;
};

/// Whether a product with AMX is multiplied in bfloat16. Measured (docs/onednn.md, "Low-bit weights"): larger blocks and fewer
/// rows take longer so. Elements less integer zero points are at most 255, which bfloat16 has.
inline bool takes_halves(const LowBitMatrix& matrix, LowBitCompute compute, std::int64_t rows) {
  constexpr std::int64_t kLeastRows = 48, kMostBlock = 32;
  return rows >= kLeastRows && matrix.block <= kMostBlock && compute == LowBitCompute::kInt8 &&
         matrix.zeros != ZeroPoints::kFloat && may_use_tiles();
}

/// Whether a row of kFloat may be multiplied as kDigits rows of integers (low_bit_digits-inl.h): with VNNI that takes a third of
/// the instructions.
inline constexpr std::size_t kDigits = 3;
inline bool has_digits(const LowBitMatrix& matrix, std::int64_t rows, bool vnni) {
  return vnni && rows == 1 && matrix.zeros != ZeroPoints::kFloat;
}

/// A unit that serves every kernel has at most so many numbers.
inline constexpr std::int64_t kLeastUnit = 32;

/// From so many rows on, kFloat unpacks a tile once and multiplies it.
inline constexpr std::int64_t kRowsOfPanels = 8;

}  // namespace ctxgen::kernels
