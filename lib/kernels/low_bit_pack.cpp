#include <cstring>

#include "ctxgen/base/checked.h"
#include "ctxgen/kernels/low_bit.h"

#include "low_bit_layout.h"

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

}  // namespace ctxgen::kernels
