#pragma once

#include "ctxgen/onednn/kind_params.h"

#include "low_bit_matrix.h"

// Constant weights of convolutions, integers of a few bits that a DequantizeLinear makes real.
namespace ctxgen::onednn {

/// Weights [M, C, K1..Kk] as a matrix [K1..Kk C, M] that windows in channels-last order are multiplied by.
struct LowBitWindows {
  StoredLowBits stored = {};  // matrix: as packed; values, scales and zeros: in the file's order
  std::int64_t channels = 0, positions = 0;  // of the kernel
  IntList kernel = {};
  WindowParams window = {};
};

/// What Conv `conv` multiplies by, which DequantizeLinear `dequantize` makes. Refuses more than one group,
/// three spatial dims, scales that differ within 16 channels, and weights too few to be worth it: they run
/// as float32.
[[nodiscard]] Read<LowBitWindows> read_low_bit_windows(const NodeView& dequantize,
                                                       const NodeView& conv);

/// With values, scales and zeros in the order of the matrix. Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<StoredLowBits> in_window_order(const LowBitWindows& windows);

}  // namespace ctxgen::onednn
