#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ctxgen/base/workers.h"

// Products with constant matrices of 2, 4 or 8-bit integers in blocks that share a scale, as
// com.microsoft's MatMulNBits has them.
namespace ctxgen::kernels {

enum class ZeroPoints : std::uint8_t {
  kMiddle,   // 2^(bits - 1) everywhere
  kInteger,  // one of `bits` bits per block
  kFloat,    // one f32 number per block
};

/// A matrix [k, n] whose element is (q - zero) * scale: q has `bits` bits, zero and scale belong to
/// `block` elements of a column.
struct LowBitMatrix {
  std::int64_t k = 0, n = 0;  // 1 to 2^31
  std::int64_t bits = 4;      // 2, 4 or 8
  std::int64_t block = 32;    // 16, 32, 64, 128 or 256
  ZeroPoints zeros = ZeroPoints::kMiddle;
  [[nodiscard]] std::int64_t blocks() const { return (k + block - 1) / block; }  // of a column
};

/// Whether the numbers are among those above.
[[nodiscard]] bool is_valid(const LowBitMatrix& matrix);

// The packed form, in the order in which kernels read it, is the same for all instruction sets. Tiles
// of 32 columns follow one another, the last one filled up with zeros. A tile has its blocks in
// order, and then its zero points, if it has any, block by block (u8 or f32), filled up to a multiple
// of 64 bytes. A block is block * bits / 32 rows of 32 words, then 32 f32 scales. The word of a column
// holds 32 / bits consecutive elements: bits [8 i + bits * p, ...) are the element 4 p + i.
inline constexpr std::int64_t kLowBitColumns = 32;

/// Bytes of the packed form. Requires  is_valid().
[[nodiscard]] std::uint64_t packed_bytes(const LowBitMatrix& matrix);

/// What ONNX has: columns one after the other, the low bits of a byte first.
struct LowBitSource {
  const std::uint8_t* values = nullptr;  // [n][blocks][block * bits / 8]
  const float* scales = nullptr;         // [n][blocks]
  const std::uint8_t* zeros = nullptr;   // kInteger: [n][(blocks * bits + 7) / 8]
  const float* float_zeros = nullptr;    // kFloat: [n][blocks]
};
/// Writes packed_bytes() to `packed`.
void pack(const LowBitMatrix& matrix, const LowBitSource& source, std::byte* packed);

/// Writes the k elements of a column, (q - zero) * scale, each rounded once after each operation.
/// Requires  0 <= column < n; `packed` may have any alignment.
void unpack_column(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t column,
                   float* to);

/// Writes tiles [first, last) in f32 as panels that kernels::multiply_panels() reads (product.h): of
/// kLowBitColumns columns, panel_rows() x kLowBitColumns floats each. Elements as unpack_column() writes
/// them; columns from n on are 0, rows from k on are not to be read.
/// Requires  0 <= first <= last <= the number of tiles; `to` at a multiple of 64.
void unpack_tiles(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t first,
                  std::int64_t last, float* to);
[[nodiscard]] constexpr std::int64_t panel_rows(const LowBitMatrix& matrix) {
  return matrix.blocks() * matrix.block;
}

/// How a product computes.
enum class LowBitCompute : std::uint8_t {
  kFloat,  // in f32, or as exact: what is rounded off a number is at most 2^-24 of its block's largest
  /// Each block of a row becomes integers, round to even of x / (max |x| / 127). Sums of 32 products are exact; with VNNI,
  /// and of 8-bit elements, those of a block. Needs integer zero points.
  kInt8,
};

struct LowBitProduct {
  LowBitMatrix matrix;
  LowBitCompute compute = LowBitCompute::kFloat;
  std::int64_t rows = 0;
  const float* a = nullptr;           // [rows, k]
  const std::byte* packed = nullptr;  // at a multiple of 64
  const float* bias = nullptr;        // [n] or null
  float* out = nullptr;               // [rows, n]
  // scratch_bytes() at a multiple of 64, of kInt8 run_scratch_bytes(); with run_scratch those always, which one row of kFloat
  // is multiplied faster with.
  std::byte* scratch = nullptr;
  bool run_scratch = false;
  // How many workers have caches of their own: many rows are split into so many parts, each of which one worker prepares and
  // multiplies by all columns, so that it finds what it wrote before. The result does not depend on it.
  std::int64_t lanes = 1;
};

/// What every machine needs for a product, of which files tell. Nothing if that passes 2^63 - 1. Requires  is_valid() and rows >= 0.
[[nodiscard]] std::optional<std::uint64_t> scratch_bytes(const LowBitMatrix& matrix,
                                                         LowBitCompute compute, std::int64_t rows);

/// The same on this machine, whose instructions may take more.
[[nodiscard]] std::optional<std::uint64_t> run_scratch_bytes(const LowBitMatrix& matrix,
                                                             LowBitCompute compute,
                                                             std::int64_t rows);

/// out = a * matrix + bias. A row of `a` with NaN or infinity gives NaN or infinity in all columns;
/// with kInt8 a block whose numbers are all below 1e-34 counts as 0. With kFloat and fewer than 8 rows numbers below 2^-98
/// may count as 0.
///
/// Threads  any; columns, and with many rows these too, are split over `workers`. The result does not
///          depend on them.
void low_bit_product(const LowBitProduct& product, Workers& workers);

}  // namespace ctxgen::kernels
