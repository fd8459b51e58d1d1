// Rows of f32 times packed low-bit blocks: as they are for few rows, by unpacked panels for many.
// Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_FLOAT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_FLOAT_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_FLOAT_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_FLOAT_INL_H
#endif

#include <hwy/highway.h>

#include "low_bit/low_bit_int8-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Which element of its word begins at bit kBits * q.
template <std::size_t kBits>
constexpr std::size_t element_at(std::size_t q) {
  return q * kBits % 8 / kBits * 4 + q * kBits / 8;
}

/// The element at bit kBits * q of each word times 2^(kBits * q), for the last q times 1.
template <std::size_t kBits>
HWY_INLINE hn::Vec<Floats> element_of(hn::Vec<Words> word, std::size_t q) {
  if (q == 32 / kBits - 1)
    return hn::ConvertTo(Floats(), hn::BitCast(Ints(), hn::ShiftRight<32 - kBits>(word)));
  const auto mask = hn::Set(Words(), ((1U << kBits) - 1) << (q * kBits));
  return hn::ConvertTo(Floats(), hn::BitCast(Ints(), hn::And(word, mask)));
}

/// The power of two that element_of() leaves out.
template <std::size_t kBits>
HWY_INLINE float factor_of(std::size_t q) {
  return q == 32 / kBits - 1 ? 1.0F : 1.0F / static_cast<float>(1U << (q * kBits));
}

/// The row in the order of the bits of words, with factors; then per block minus its sum (kMiddle:
/// times the zero point).
template <std::size_t kBits>
HWY_NOINLINE void prepare_float_row(const LowBitMatrix& matrix, const RowLayout& layout,
                                    const float* x, std::byte* to) {
  constexpr std::size_t kElements = 32 / kBits;
  auto* values = reinterpret_cast<float*>(to);
  auto* zeros = reinterpret_cast<float*>(to + layout.zeros_offset);
  const float shift =
      matrix.zeros == ZeroPoints::kMiddle ? static_cast<float>(1 << (kBits - 1)) : 1.0F;
  float sum = 0;
  for (std::int64_t k = 0; k < layout.padded; k += static_cast<std::int64_t>(kElements)) {
    for (std::size_t q = 0; q < kElements; ++q) {
      const std::int64_t at = k + static_cast<std::int64_t>(element_at<kBits>(q));
      const float value = at < matrix.k ? x[at] : 0.0F;
      sum += value;
      values[static_cast<std::size_t>(k) + q] = value * factor_of<kBits>(q);
    }
    if ((k + static_cast<std::int64_t>(kElements)) % matrix.block != 0) continue;
    zeros[k / matrix.block] = -shift * sum;
    sum = 0;
  }
}

/// Sums that do not wait for one another: 8 keep two units with a latency of 4 busy.
template <std::size_t kRows, std::size_t kVectors>
constexpr std::size_t kChainsOf = kRows * kVectors >= 8 ? 1 : 8 / (kRows * kVectors);

/// The sums of a block of `words` words; `tile.word` and `x` go on to what follows it.
template <std::size_t kBits, std::size_t kRows, std::size_t kVectors, std::size_t kChains>
HWY_INLINE void add_float_block(std::int64_t words, std::size_t stride, TileReader& tile,
                                const float*& x, hn::Vec<Floats> (&sum)[kRows][kVectors][kChains]) {
  constexpr std::size_t kElements = 32 / kBits;
  for (std::int64_t j = 0; j < words; ++j) {
    hn::Vec<Words> from[kVectors];
    hn::Vec<Floats> element[kVectors];
    load_words<kRows == 1>(tile, from);
    HWY_UNROLL(16)
    for (std::size_t q = 0; q < kElements; ++q) {
      HWY_UNROLL(8)
      for (std::size_t v = 0; v < kVectors; ++v) element[v] = element_of<kBits>(from[v], q);
      HWY_UNROLL(8)
      for (std::size_t r = 0; r < kRows; ++r) {
        const auto by = hn::Set(Floats(), x[r * stride + q]);
        HWY_UNROLL(8)
        for (std::size_t v = 0; v < kVectors; ++v) {
          auto& chain = sum[r][v][q % kChains];
          chain = hn::MulAdd(element[v], by, chain);
          CTXGEN_KEEP(chain);
        }
      }
    }
    tile.word += kWordRow;
    x += kElements;
  }
}

/// As int8_columns(), over rows that prepare_float_row() made.
template <std::size_t kBits, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void float_columns(const LowBitMatrix& matrix, const RowLayout& layout,
                              const std::byte* prepared, const TilesAtOnce& from, float* sums) {
  static_assert(kRows == 1 || kVectors <= kTileVectors);
  const Floats d;
  const LowBitLayout packed(matrix);
  const bool middle = matrix.zeros == ZeroPoints::kMiddle;
  const std::size_t stride = static_cast<std::size_t>(layout.row_bytes) / 4;
  const std::size_t zero_bytes = matrix.zeros == ZeroPoints::kFloat ? 4 : 1;
  hn::Vec<Floats> totals[kRows][kVectors], zeros[kVectors];
  for (auto& row : totals)
    for (auto& total : row) total = hn::Zero(d);
  const auto* x = reinterpret_cast<const float*>(prepared);
  const auto* zero = reinterpret_cast<const float*>(prepared + layout.zeros_offset);
  TileReader tile{from.first + from.column * 4, nullptr,
                  from.first + packed.zeros_offset + from.column * zero_bytes,
                  static_cast<std::size_t>(packed.tile_bytes), from.ahead};
  for (std::int64_t block = 0; block < packed.blocks; ++block) {
    hn::Vec<Floats> sum[kRows][kVectors][kChainsOf<kRows, kVectors>];
    load_zeros(matrix.zeros, tile.zeros, tile.pitch, zeros);
    HWY_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r)
      for (std::size_t v = 0; v < kVectors; ++v) {
        for (auto& chain : sum[r][v]) chain = hn::Zero(d);
        const auto minus = hn::Set(d, zero[r * stride]);
        sum[r][v][0] = middle ? minus : hn::Mul(minus, zeros[v]);
      }
    add_float_block<kBits>(packed.block_words, stride, tile, x, sum);
    if constexpr (kRows == 1) fetch_words<kVectors>(tile.word, tile);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto scale =
          hn::LoadU(d, reinterpret_cast<const float*>(tile.word + vector_offset<4>(v, tile.pitch)));
      HWY_UNROLL(8)
      for (std::size_t r = 0; r < kRows; ++r) {
        auto whole = sum[r][v][0];
        for (std::size_t c = 1; c < kChainsOf<kRows, kVectors>; ++c)
          whole = hn::Add(whole, sum[r][v][c]);
        totals[r][v] = hn::MulAdd(whole, scale, totals[r][v]);
      }
    }
    tile.word += kWordRow;  // the scales
    tile.zeros += kLowBitColumns * zero_bytes;
    ++zero;
  }
  store_sums(totals, from.column, sums);
}

/// Blocks [first, last) of a tile as (q - zero) * scale: panel[k][kLowBitColumns] in f32.
template <std::size_t kBits>
HWY_NOINLINE void unpack_panel(const LowBitMatrix& matrix, const std::byte* tile,
                               std::int64_t first, std::int64_t last, float* panel) {
  constexpr std::size_t kElements = 32 / kBits;
  const Floats d;
  const LowBitLayout packed(matrix);
  const std::int64_t zero_bytes = matrix.zeros == ZeroPoints::kFloat ? 4 : 1;
  const auto middle = hn::Set(d, static_cast<float>(1 << (kBits - 1)));
  for (std::int64_t block = first; block < last; ++block) {
    const std::byte* record = tile + block * packed.block_bytes;
    const auto* scales =
        reinterpret_cast<const float*>(record + packed.block_words * kLowBitColumns * 4);
    hn::Vec<Floats> zeros[kTileVectors];
    load_zeros(matrix.zeros, tile + packed.zeros_offset + block * kLowBitColumns * zero_bytes, 0,
               zeros);
    for (std::size_t v = 0; v < kTileVectors; ++v) {
      const auto scale = hn::LoadU(d, scales + v * kLanes);
      const auto zero = matrix.zeros == ZeroPoints::kMiddle ? middle : zeros[v];
      float* to = panel + (block - first) * matrix.block * kLowBitColumns + v * kLanes;
      for (std::int64_t j = 0; j < packed.block_words; ++j) {
        const auto word = hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(record) +
                                                 j * kLowBitColumns + v * kLanes);
        HWY_UNROLL(16)
        for (std::size_t q = 0; q < kElements; ++q) {
          const auto element = hn::Mul(element_of<kBits>(word, q), hn::Set(d, factor_of<kBits>(q)));
          hn::StoreU(hn::Mul(hn::Sub(element, zero), scale), d,
                     to + element_at<kBits>(q) * kLowBitColumns);
        }
        to += kElements * kLowBitColumns;
      }
    }
  }
}

/// sums[r][kLowBitColumns] += a[r][0, count) * panel, for columns [column, column + vectors).
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void multiply_panel(std::int64_t count, const float* a, std::int64_t stride,
                               const float* panel, float* sums) {
  const Floats d;
  hn::Vec<Floats> total[kRows][kVectors];
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      total[r][v] = hn::LoadU(d, sums + r * kLowBitColumns + v * kLanes);
  for (std::int64_t k = 0; k < count; ++k) {
    hn::Vec<Floats> column[kVectors];
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v)
      column[v] = hn::LoadU(d, panel + k * kLowBitColumns + v * kLanes);
    HWY_UNROLL(16)
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto by = hn::Set(d, a[static_cast<std::int64_t>(r) * stride + k]);
      HWY_UNROLL(8)
      for (std::size_t v = 0; v < kVectors; ++v)
        total[r][v] = hn::MulAdd(column[v], by, total[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(total[r][v], d, sums + r * kLowBitColumns + v * kLanes);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
