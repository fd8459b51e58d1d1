// Many rows of 8-bit integers times low-bit blocks by VNNI: a panel of the matrix is unpacked to bytes once for all rows. Compiled
// once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_PANELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_PANELS_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_PANELS_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_PANELS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "low_bit/low_bit_int8-inl.h"
#include "prefetch.h"
#include "stretches.h"

#if CTXGEN_HAVE_VNNI  // clang refuses to have nothing between what Highway puts around code
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Elements of a column of a panel, as bytes of 16 KiB, half of the first cache.
constexpr std::int64_t kBytePanel = 512;

/// Rows that are multiplied at once, by two vectors of columns: their sums and totals fill the registers.
constexpr std::size_t kMostByteRowsOfPanel = kLanes >= 16 ? 6 : 3;

/// Blocks [first, end) of a tile, and where their elements are as bytes, group by group.
struct BytePanel {
  std::int64_t first, end;
  const std::byte* tile;
  const std::byte* bytes;
};

template <std::size_t kBits>
HWY_NOINLINE void unpack_bytes(const LowBitMatrix& matrix, const BytePanel& panel, std::byte* to) {
  constexpr std::size_t kParts = 8 / kBits;
  const LowBitLayout packed(matrix);
  for (std::int64_t block = panel.first; block < panel.end; ++block) {
    const std::byte* from = panel.tile + block * packed.block_bytes;
    for (std::int64_t word = 0; word < packed.block_words; ++word, from += kWordRow)
      for (std::size_t p = 0; p < kParts; ++p, to += kWordRow)
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          const auto words =
              hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(from) + v * kLanes);
          hn::StoreU(bytes_of<kBits>(words, p), Words(),
                     reinterpret_cast<std::uint32_t*>(to) + v * kLanes);
        }
  }
}

/// totals[r * kLowBitColumns + c] += those of a panel, for `kRows` prepared rows and two vectors of columns from `column` on.
template <std::size_t kRows>
HWY_NOINLINE void add_byte_panel(const LowBitMatrix& matrix, const RowLayout& layout,
                                 const std::byte* prepared, const BytePanel& panel,
                                 std::size_t column, float* totals) {
  constexpr std::size_t kVectors = 2, kAtOnce = 4;  // groups; blocks have a multiple of that
  const Floats d;
  const LowBitLayout packed(matrix);
  const bool middle = matrix.zeros == ZeroPoints::kMiddle;
  const auto stride = static_cast<std::size_t>(layout.row_bytes);
  const std::int64_t groups = matrix.block / 4;
  RowPointers<kRows, std::byte> x(prepared + panel.first * matrix.block, stride);
  RowPointers<kRows, std::byte> steps(prepared + layout.scales_offset + panel.first * 4, stride);
  RowPointers<kRows, std::byte> zeros(prepared + layout.zeros_offset + panel.first * 4, stride);
  const std::byte* words = panel.bytes + column * 4;
  const std::byte* scales = panel.tile + panel.first * packed.block_bytes + column * 4 +
                            packed.block_words * static_cast<std::int64_t>(kWordRow);
  const std::int64_t zero_bytes = matrix.zeros == ZeroPoints::kFloat ? 4 : 1;
  const std::byte* zero =
      panel.tile + packed.zeros_offset +
      (panel.first * kLowBitColumns + static_cast<std::int64_t>(column)) * zero_bytes;
  hn::Vec<Floats> total[kRows][kVectors];
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    for (std::size_t v = 0; v < kVectors; ++v)
      total[r][v] = hn::LoadU(d, totals + r * kLowBitColumns + column + v * kLanes);
  });
  for (std::int64_t block = panel.first; block < panel.end; ++block) {
    hn::Vec<Ints> sum[kRows][kVectors];
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      const auto start = middle ? spread_four(zeros.row(r)) : hn::Zero(Ints());
      for (std::size_t v = 0; v < kVectors; ++v) sum[r][v] = start;
    });
    for (std::int64_t g = 0; g < groups; g += kAtOnce) {
      unrolled<kAtOnce>([&](auto i) CTXGEN_UNROLLED {
        hn::Vec<Words> by[kVectors];
        for (std::size_t v = 0; v < kVectors; ++v)
          by[v] = hn::LoadU(
              Words(), reinterpret_cast<const std::uint32_t*>(words + i * kWordRow) + v * kLanes);
        unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
          const auto four = spread_four(x.row(r) + i * 4);
          for (std::size_t v = 0; v < kVectors; ++v) add_products(sum[r][v], by[v], four);
        });
      });
      words += kAtOnce * kWordRow;
      x.advance(kAtOnce * 4);
    }
    hn::Vec<Floats> scale[kVectors], shift[kVectors];
    for (std::size_t v = 0; v < kVectors; ++v)
      scale[v] = hn::LoadU(d, reinterpret_cast<const float*>(scales) + v * kLanes);
    if (!middle) load_zeros(matrix.zeros, zero, 0, shift);
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      const auto step = hn::BitCast(d, spread_four(steps.row(r)));
      for (std::size_t v = 0; v < kVectors; ++v) {
        auto value = hn::ConvertTo(d, sum[r][v]);
        if (!middle) value = hn::MulAdd(shift[v], hn::BitCast(d, spread_four(zeros.row(r))), value);
        total[r][v] = hn::MulAdd(value, hn::Mul(scale[v], step), total[r][v]);
      }
    });
    steps.advance(4);
    zeros.advance(4);
    scales += packed.block_bytes;
    zero += kLowBitColumns * zero_bytes;
  }
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(total[r][v], d, totals + r * kLowBitColumns + column + v * kLanes);
  });
}

/// Asks for part `i` of `parts` of the blocks after a panel, which may be beyond the matrix.
HWY_INLINE void ask_for_next(const LowBitMatrix& matrix, const BytePanel& panel, std::int64_t i,
                             std::int64_t parts) {
  const std::int64_t bytes = LowBitLayout(matrix).block_bytes * (panel.end - panel.first);
  const std::int64_t each = divide_up(divide_up(bytes, kLineBytes), parts);
  const std::byte* from = panel.tile + LowBitLayout(matrix).block_bytes * panel.end;
  for (std::int64_t line = i * each; line < (i + 1) * each; ++line)
    prefetch_second(from + line * kLineBytes);
}

/// `rows` prepared rows times a tile: totals[r * kLowBitColumns + c], without bias.
template <std::size_t kBits>
HWY_NOINLINE void multiply_byte_panels(const LowBitMatrix& matrix, const RowLayout& layout,
                                       const std::byte* prepared, std::int64_t rows,
                                       const std::byte* tile, float* totals) {
  HWY_ALIGN std::byte bytes[static_cast<std::size_t>(kBytePanel) * kLowBitColumns];
  const LowBitLayout packed(matrix);
  std::fill_n(totals, rows * kLowBitColumns, 0.0F);
  const std::int64_t blocks = kBytePanel / matrix.block;
  for (std::int64_t block = 0; block < packed.blocks; block += blocks) {
    const BytePanel panel{block, std::min(block + blocks, packed.blocks), tile, bytes};
    unpack_bytes<kBits>(matrix, panel, bytes);
    constexpr auto kAtOnce = static_cast<std::int64_t>(kMostByteRowsOfPanel);
    std::int64_t row = 0;
    const auto take = [&]<std::size_t kRows>() HWY_ATTR {
      for (; rows - row >= static_cast<std::int64_t>(kRows); row += kRows) {
        ask_for_next(matrix, panel, row / kAtOnce, divide_up(rows, kAtOnce));
        for (std::size_t column = 0; column < kLowBitColumns; column += 2 * kLanes)
          add_byte_panel<kRows>(matrix, layout, prepared + row * layout.row_bytes, panel, column,
                                totals + row * kLowBitColumns);
      }
    };
    take.template operator()<kMostByteRowsOfPanel>();
    if constexpr (kMostByteRowsOfPanel > 4) take.template operator()<4>();
    take.template operator()<2>();
    take.template operator()<1>();
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
