#pragma once

#include <cstddef>
#include <cstdint>

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

/// A unit that serves every kernel has at most so many numbers.
inline constexpr std::int64_t kLeastUnit = 32;

/// From so many rows on, kFloat unpacks a tile once and multiplies it.
inline constexpr std::int64_t kRowsOfPanels = 8;

}  // namespace ctxgen::kernels
