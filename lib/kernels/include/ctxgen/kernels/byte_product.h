#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ctxgen/base/workers.h"

// Exact products of 8-bit integers with constant matrices of such, and what makes real numbers of them.
namespace ctxgen::kernels {

/// A matrix [k, n] of u8 or s8, of whose elements a zero point is subtracted.
struct ByteMatrix {
  std::int64_t k = 0, n = 0;  // 1 to 2^31
  bool zeros = false;         // there are zero points other than 0 (s8) or 128 (u8)
  bool limits = false;        // the packed form has limits: faster without VNNI
};

/// Whether the numbers are among those above.
[[nodiscard]] bool is_valid(const ByteMatrix& matrix);

// The packed form is the same for all instruction sets. Tiles of 32 columns follow one another, the last
// one filled up with zeros. A tile is (k + 3) / 4 rows of 32 words, the word of a column holding four
// consecutive elements as s8 (those of u8 less 128), the first one in its low byte; then 32 sums of the
// columns (s32) and, with `zeros`, their 32 zero points (s32, those of u8 less 128).
//
// With `limits`, these follow: for each half of each tile (16 columns) a line of a byte for each step (two rows of words, whole
// ones) and another such line, then zeros up to a multiple of 64, of which the last 64 are read, too. By bytes up to the first
// line's limit, a step's products may be added four at a time in 16 bits: of each column the elements 0, 1, 4 and 5 and the
// others, in any order; by bytes up to the second line's, pairs of consecutive elements may be.
inline constexpr std::int64_t kByteColumns = 32;
inline constexpr std::int64_t kLimitColumns = 16;

/// Bytes of the packed form; UINT64_MAX if that passes 2^64. Requires  is_valid().
[[nodiscard]] std::uint64_t packed_bytes(const ByteMatrix& matrix);

/// What ONNX has.
struct ByteSource {
  bool is_signed = false;
  const std::uint8_t* values = nullptr;  // [k][n], bytes of u8 or s8
  const std::uint8_t* zeros = nullptr;   // of the same type: [n], one, or null: 0
  bool zero_per_column = false;
};
/// Whether the packed form of `source` needs zero points (ByteMatrix::zeros).
[[nodiscard]] bool needs_zeros(const ByteSource& source, std::int64_t n);
/// Writes packed_bytes() to `packed`.
void pack(const ByteMatrix& matrix, const ByteSource& source, std::byte* packed);

/// How real numbers become bytes again: round to even of x / scale, held between `least` and `most`, plus `zero`.
/// NaN becomes the least.
struct ByteSteps {
  float scale = 1;
  std::int32_t zero = 0;               // as u8 or s8
  std::int32_t least = 0, most = 255;  // less `zero`
};

/// Rows that lie in an image as they are, as windows of a convolution do: in lines, and in segments of as many bytes each,
/// a multiple of four, which are segment_stride bytes apart.
struct ByteLines {
  std::int64_t rows = 0;    // of a line; 0: rows follow one another
  std::int64_t stride = 0;  // bytes from the first row of a line to that of the next one
  std::int64_t segments = 1;
  std::int64_t segment_stride = 0;
};
/// Whether byte_product() takes such rows, of u8, times a matrix without zero points.
[[nodiscard]] bool takes_lines();

/// sums = (a - a_zero) * (matrix - its zeros) in 32 bits, which wrap around as ONNX lets them;
/// out = sums * (a_scale * b_scale) + bias, rounded after each operation; bytes = out by `steps`.
struct ByteProduct {
  ByteMatrix matrix;
  std::int64_t rows = 0;
  bool is_signed = false;           // a and its zero point are s8, not u8
  const std::uint8_t* a = nullptr;  // [rows, k]
  // Bytes from row to row: k (0 says the same), or a multiple of 4 up to which zeros follow.
  std::int64_t a_stride = 0;
  ByteLines lines = {};                  // where there are any: a_stride is any number
  const std::uint8_t* a_zero = nullptr;  // one, or null: 0
  const std::byte* packed = nullptr;     // at a multiple of 64
  std::int32_t* sums = nullptr;          // [rows, n]; null: `bytes` or `out` is written
  std::uint8_t* bytes = nullptr;         // [rows, n]; null: `out` is written
  float* out = nullptr;                  // [rows, n]
  ByteSteps steps = {};                  // of `bytes`
  const float* a_scale = nullptr;        // one, or null: 1
  const float* b_scales = nullptr;       // [n], one, or null: 1
  bool scale_per_column = false;
  const float* bias = nullptr;   // [n] or null
  std::byte* scratch = nullptr;  // scratch_bytes() at a multiple of 64
  // Tiles of columns that are computed, kByteColumns each; 0: all of them.
  std::int64_t first_tile = 0, tiles = 0;
  // How many workers have caches of their own: many rows are split into so many parts, each of which one worker multiplies by
  // all columns, so that it finds what it wrote before. The result does not depend on it.
  std::int64_t lanes = 1;
};

/// Nothing if that passes 2^63 - 1. Requires  is_valid() and rows >= 0.
[[nodiscard]] std::optional<std::uint64_t> scratch_bytes(const ByteMatrix& matrix,
                                                         std::int64_t rows);

/// Sums are exact on every instruction set.
///
/// Threads  any; columns, and with many rows these too, are split over `workers`. The result does not
///          depend on them.
void byte_product(const ByteProduct& product, Workers& workers);

}  // namespace ctxgen::kernels
