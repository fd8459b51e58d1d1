#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/byte_product.h"

#include "bytes/byte_layout.h"
#include "bytes/byte_limits.h"

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

/// How far products of elements with bytes go in 16 bits: sums of the positive ones and of the others.
struct Reach {
  std::int32_t up = 0, down = 0;
  void add(std::byte element) {
    const std::int32_t value = static_cast<std::int8_t>(element);
    (value > 0 ? up : down) += std::abs(value);
  }
  [[nodiscard]] std::int32_t most() const { return std::max(up, down); }
};

/// The largest byte by which 16 bits hold so much.
std::byte limit_of(std::int32_t reach) {
  constexpr std::int32_t kMost = 32767, kMostByte = 255;
  return static_cast<std::byte>(reach * kMostByte <= kMost ? kMostByte : kMost / reach);
}

/// Writes the limits of the step whose two rows of words begin at `words`, of a half of a tile.
void write_limits(const std::byte* words, std::byte& fours, std::byte& pairs) {
  std::int32_t of_fours = 0, of_pairs = 0;
  for (std::int64_t c = 0; c < kLimitColumns; ++c)
    for (const std::int64_t half : {0, 2}) {
      Reach four;
      for (const std::int64_t row : {std::int64_t{0}, kByteColumns * 4}) {
        Reach pair;
        for (const std::int64_t i : {half, half + 1}) pair.add(words[row + c * 4 + i]);
        of_pairs = std::max(of_pairs, pair.most());
        four.up += pair.up;
        four.down += pair.down;
      }
      of_fours = std::max(of_fours, four.most());
    }
  fours = limit_of(of_fours);
  pairs = limit_of(of_pairs);
}

void write_all_limits(const ByteLayout& layout, std::byte* packed) {
  std::byte* to = packed + layout.tiles * layout.tile_bytes;
  for (std::int64_t tile = 0; tile < layout.tiles; ++tile)
    for (std::int64_t column = 0; column < kByteColumns; column += kLimitColumns) {
      const std::byte* words = packed + tile * layout.tile_bytes + column * 4;
      for (std::int64_t step = 0; step < layout.steps; ++step, words += 2 * kByteColumns * 4)
        write_limits(words, to[step], to[layout.steps + step]);
      to += 2 * layout.steps;
    }
}

}  // namespace

bool is_valid(const ByteMatrix& matrix) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return matrix.k >= 1 && matrix.n >= 1 && matrix.k <= kMost && matrix.n <= kMost;
}

std::uint64_t packed_bytes(const ByteMatrix& matrix) {
  const ByteLayout layout(matrix);
  const auto tiles = static_cast<std::uint64_t>(layout.tiles);
  const auto words = checked_mul(tiles, static_cast<std::uint64_t>(layout.tile_bytes));
  if (!words || layout.steps == 0) return words.value_or(UINT64_MAX);
  constexpr std::uint64_t kLines = kByteColumns / kLimitColumns * 2;
  const std::uint64_t lines = tiles * kLines * static_cast<std::uint64_t>(layout.steps);
  const std::uint64_t limits = align_up(lines + kAfterLimits, 64);
  return checked_add(*words, limits).value_or(UINT64_MAX);
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
  write_all_limits(layout, packed);
}

}  // namespace ctxgen::kernels
