#pragma once

#include "ctxgen/kernels/low_bit.h"

#include "../../node_view.h"

// Constant matrices of integers of a few bits that a DequantizeLinear makes real.
namespace ctxgen::onednn {

/// (values - zeros) * scales as a matrix [k, n] for the kernels of low-bit products.
struct StoredLowBits {
  kernels::LowBitMatrix matrix = {};  // in blocks that kernels know, one or more to a scale
  Tensor values = {};                 // u2, s2, u4, s4, u8 or s8 [k, n]
  Tensor scales = {};                 // f32 or f16
  Tensor zeros = {};            // as many, of the type of `values`; undefined: 0, or the middle
  bool swapped = false;         // values are [n, k], scales [n, blocks]
  bool per_column = false;      // scales differ by column
  bool middle = false;          // what no zero points mean
  std::int64_t scale_rows = 0;  // elements of a column to a scale; 0: all
};

/// Bits of an integer type of a few bits; 0 for other types.
[[nodiscard]] std::int64_t low_bits_of(DataType type);

/// The constants of DequantizeLinear `n`: values, scales and zeros, nothing else.
[[nodiscard]] Read<StoredLowBits> read_stored(const NodeView& n);

/// What DequantizeLinear `n` makes of constants; `swapped` says that its rows are the columns of the
/// matrix. Refuses scales that no kernel expresses: those that differ within 16 elements of a column.
[[nodiscard]] Read<StoredLowBits> read_low_bits(const NodeView& n, bool swapped);

/// Chooses the blocks of `stored`, whose other fields are set. Refuses what kernels do not express.
[[nodiscard]] Refusal choose_blocks(StoredLowBits& stored);

/// The packed order of kernels::low_bit_product(). Errors  RESOURCE_LIMIT.
[[nodiscard]] Result<Tensor> packed_low_bits(const StoredLowBits& stored);

/// Whether a matrix has so few columns that its packed form, which is filled up to 32 columns, would be
/// many times what the file has.
[[nodiscard]] Refusal require_columns(const kernels::LowBitMatrix& matrix, std::uint64_t bytes);

/// The words of op parameter "zeros".
[[nodiscard]] std::string_view zeros_word(kernels::ZeroPoints zeros);

}  // namespace ctxgen::onednn
