#include <algorithm>
#include <cstring>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/low_bit.h"

#include "low_bit/low_bit_layout.h"

namespace ctxgen::kernels {
namespace {

/// The elements of a word of ONNX's order, low bits first, in the order of packed words.
std::uint32_t reordered(std::uint32_t word, int bits) {
  if (bits == 8) return word;
  const std::uint32_t mask = (1U << bits) - 1;
  std::uint32_t result = 0;
  for (int e = 0; e < 32 / bits; ++e)
    result |= ((word >> (e * bits)) & mask) << (e % 4 * 8 + e / 4 * bits);
  return result;
}

struct TileWriter {
  const LowBitMatrix& matrix;
  const LowBitSource& source;
  LowBitLayout layout;

  void write_block(std::int64_t first, std::int64_t columns, std::int64_t block, std::byte* to) {
    const std::int64_t words = layout.block_words, bytes = words * 4;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::uint8_t* values = source.values + ((first + c) * layout.blocks + block) * bytes;
      for (std::int64_t j = 0; j < words; ++j) {
        std::uint32_t word = 0;
        std::memcpy(&word, values + j * 4, 4);
        word = reordered(word, static_cast<int>(matrix.bits));
        std::memcpy(to + (j * kLowBitColumns + c) * 4, &word, 4);
      }
      std::memcpy(to + (words * kLowBitColumns + c) * 4,
                  source.scales + (first + c) * layout.blocks + block, 4);
    }
  }

  void write_zeros(std::int64_t first, std::int64_t columns, std::int64_t block, std::byte* to) {
    const std::int64_t bits = matrix.bits, row = (layout.blocks * bits + 7) / 8;
    for (std::int64_t c = 0; c < columns; ++c) {
      if (matrix.zeros == ZeroPoints::kFloat) {
        std::memcpy(to + (block * kLowBitColumns + c) * 4,
                    source.float_zeros + (first + c) * layout.blocks + block, 4);
      } else if (matrix.zeros == ZeroPoints::kInteger) {
        const std::uint32_t byte = source.zeros[(first + c) * row + block * bits / 8];
        to[block * kLowBitColumns + c] =
            static_cast<std::byte>((byte >> (block * bits % 8)) & ((1U << bits) - 1));
      }
    }
  }
};

float read_float(const std::byte* from) {
  float value = 0;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// The zero point of a column's block in a tile, of `c` columns before it.
float zero_of(const LowBitMatrix& matrix, const std::byte* zeros, std::int64_t block,
              std::int64_t c) {
  const std::int64_t at = block * kLowBitColumns + c;
  if (matrix.zeros == ZeroPoints::kMiddle) return static_cast<float>(1 << (matrix.bits - 1));
  if (matrix.zeros == ZeroPoints::kFloat) return read_float(zeros + at * 4);
  return static_cast<float>(static_cast<std::uint8_t>(zeros[at]));
}

/// Elements of a block, whose words of the column begin at `words`.
template <int kBits>
void unpack_block(const std::byte* words, std::int64_t count, float zero, float scale, float* to) {
  constexpr std::int64_t kElements = 32 / kBits;
  for (std::int64_t k = 0; k < count; k += kElements, words += kLowBitColumns * 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, words, sizeof word);
    for (std::int64_t e = 0; e < std::min(kElements, count - k); ++e) {
      const std::uint32_t q = (word >> (e % 4 * 8 + e / 4 * kBits)) & ((1U << kBits) - 1);
      to[k + e] = (static_cast<float>(q) - zero) * scale;
    }
  }
}

}  // namespace

bool is_valid(const LowBitMatrix& matrix) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto& [k, n, bits, block, zeros] = matrix;
  return k >= 1 && n >= 1 && k <= kMost && n <= kMost && (bits == 2 || bits == 4 || bits == 8) &&
         (block == 16 || block == 32 || block == 64 || block == 128 || block == 256);
}

std::uint64_t packed_bytes(const LowBitMatrix& matrix) {
  const LowBitLayout layout(matrix);  // at most 2^26 tiles of 2^27 blocks of 8 KiB and more
  return checked_mul(static_cast<std::uint64_t>(layout.tiles),
                     static_cast<std::uint64_t>(layout.tile_bytes))
      .value_or(UINT64_MAX);
}

void pack(const LowBitMatrix& matrix, const LowBitSource& source, std::byte* packed) {
  const LowBitLayout layout(matrix);
  std::memset(packed, 0, packed_bytes(matrix));
  TileWriter writer{matrix, source, layout};
  for (std::int64_t tile = 0; tile < layout.tiles; ++tile) {
    const std::int64_t first = tile * kLowBitColumns;
    const std::int64_t columns = std::min(kLowBitColumns, matrix.n - first);
    std::byte* to = packed + tile * layout.tile_bytes;
    for (std::int64_t block = 0; block < layout.blocks; ++block) {
      writer.write_block(first, columns, block, to + block * layout.block_bytes);
      writer.write_zeros(first, columns, block, to + layout.zeros_offset);
    }
  }
}

void unpack_column(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t column,
                   float* to) {
  const LowBitLayout layout(matrix);
  const std::int64_t c = column % kLowBitColumns;
  const std::byte* tile = packed + column / kLowBitColumns * layout.tile_bytes;
  for (std::int64_t block = 0; block < layout.blocks; ++block) {
    const std::byte* record = tile + block * layout.block_bytes + c * 4;
    const std::int64_t first = block * matrix.block;
    const std::int64_t count = std::min(matrix.block, matrix.k - first);
    const float zero = zero_of(matrix, tile + layout.zeros_offset, block, c);
    const float scale = read_float(record + layout.block_words * kLowBitColumns * 4);
    if (matrix.bits == 2)
      unpack_block<2>(record, count, zero, scale, to + first);
    else if (matrix.bits == 4)
      unpack_block<4>(record, count, zero, scale, to + first);
    else
      unpack_block<8>(record, count, zero, scale, to + first);
  }
}

}  // namespace ctxgen::kernels
