#include <algorithm>
#include <array>
#include <cstring>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/byte_product.h"

#include "bytes/byte_layout.h"

namespace ctxgen::kernels {
namespace {

constexpr std::uint8_t kHalf = 128;  // u8 less that, with the same bits but the highest, is s8

/// A byte of the source as s8.
std::int32_t signed_of(const ByteSource& source, std::uint8_t byte) {
  return static_cast<std::int8_t>(source.is_signed ? byte : byte ^ kHalf);
}

std::int32_t zero_of(const ByteSource& source, std::int64_t column) {
  if (source.zeros == nullptr) return signed_of(source, 0);
  return signed_of(source, source.zeros[source.zero_per_column ? column : 0]);
}

/// The words of a tile, and the sums of its columns, which wrap around.
void write_words(const ByteMatrix& matrix, const ByteSource& source, std::int64_t first,
                 std::int64_t columns, std::byte* to) {
  const ByteLayout layout(matrix);
  std::array<std::uint32_t, kByteColumns> sums{};
  for (std::int64_t k = 0; k < matrix.k; ++k) {
    const std::uint8_t* row = source.values + k * matrix.n + first;
    std::byte* word = to + (k / 4 * kByteColumns) * 4 + k % 4;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int32_t value = signed_of(source, row[c]);
      word[c * 4] = static_cast<std::byte>(value);
      sums[static_cast<std::size_t>(c)] += static_cast<std::uint32_t>(value);
    }
  }
  std::memcpy(to + layout.sums_offset, sums.data(), sizeof sums);
}

}  // namespace

bool is_valid(const ByteMatrix& matrix) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return matrix.k >= 1 && matrix.n >= 1 && matrix.k <= kMost && matrix.n <= kMost;
}

std::uint64_t packed_bytes(const ByteMatrix& matrix) {
  const ByteLayout layout(matrix);
  return checked_mul(static_cast<std::uint64_t>(layout.tiles),
                     static_cast<std::uint64_t>(layout.tile_bytes))
      .value_or(UINT64_MAX);
}

bool needs_zeros(const ByteSource& source, std::int64_t n) {
  for (std::int64_t column = 0; column < (source.zero_per_column ? n : 1); ++column)
    if (zero_of(source, column) != 0) return true;
  return false;
}

void pack(const ByteMatrix& matrix, const ByteSource& source, std::byte* packed) {
  const ByteLayout layout(matrix);
  std::memset(packed, 0, packed_bytes(matrix));
  for (std::int64_t tile = 0; tile < layout.tiles; ++tile) {
    const std::int64_t first = tile * kByteColumns;
    const std::int64_t columns = std::min(kByteColumns, matrix.n - first);
    std::byte* to = packed + tile * layout.tile_bytes;
    write_words(matrix, source, first, columns, to);
    if (!matrix.zeros) continue;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int32_t zero = zero_of(source, first + c);
      std::memcpy(to + layout.zeros_offset + c * 4, &zero, 4);
    }
  }
}

}  // namespace ctxgen::kernels
