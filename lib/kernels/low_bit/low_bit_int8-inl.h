// Rows of 8-bit integers times packed low-bit blocks. Compiled once per instruction set, so without a
// plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_INT8_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_INT8_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_INT8_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_INT8_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "dot-inl.h"
#include "low_bit/low_bit_layout.h"
#include "low_bit/low_bit_rows.h"
#include "vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr std::size_t kTileVectors = kLowBitColumns / kLanes;

/// The largest of the numbers without their signs; NaN where one is NaN or infinite.
HWY_INLINE float largest_of(const float* x, std::int64_t count) {
  const Words d;
  auto most = hn::Zero(d);
  const auto take = [&](hn::Vec<Floats> part) HWY_ATTR {
    most =
        hn::Max(most, hn::BitCast(d, hn::Abs(part)));  // as integers: those of NaN are the largest
  };
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= count; i += static_cast<std::int64_t>(kLanes))
    take(hn::LoadU(Floats(), x + i));
  if (i < count) take(hn::LoadN(Floats(), x + i, static_cast<std::size_t>(count - i)));
  const std::uint32_t bits = hn::ReduceMax(d, most);
  float largest = 0;
  std::memcpy(&largest, &bits, sizeof largest);
  return largest <= std::numeric_limits<float>::max() ? largest
                                                      : std::numeric_limits<float>::quiet_NaN();
}

/// A step of a quantised block: its largest number is 127 of them. NaN where one is NaN or infinite.
HWY_INLINE float step_of(const float* x, std::int64_t count) {
  const float largest = largest_of(x, count);
  return largest < 1e-34F ? 0.0F : largest / 127.0F;
}

/// x in steps, `length` bytes of which those from `count` on are 0.
HWY_INLINE void quantise(const float* x, std::int64_t count, std::int64_t length, float step,
                         std::int8_t* to) {
  if (!(step > 0)) {
    std::memset(to, 0, static_cast<std::size_t>(length));
    return;
  }
  const Floats d;
  const hn::Rebind<std::int8_t, Ints> bytes;
  const auto by = hn::Set(d, 1.0F / step);
  for (std::int64_t i = 0; i < length; i += static_cast<std::int64_t>(kLanes)) {
    const auto left = static_cast<std::size_t>(std::max<std::int64_t>(count - i, 0));
    const auto value = left >= kLanes ? hn::LoadU(d, x + i) : hn::LoadN(d, x + i, left);
    hn::StoreU(hn::DemoteTo(bytes, hn::NearestInt(hn::Mul(value, by))), bytes, to + i);
  }
}

HWY_INLINE std::int32_t sum_of(const std::int8_t* x, std::int64_t count) {
  const hn::Rebind<std::int8_t, Ints> bytes;
  auto sum = hn::Zero(Ints());
  for (std::int64_t i = 0; i < count; i += static_cast<std::int64_t>(kLanes))
    sum = hn::Add(sum, hn::PromoteTo(Ints(), hn::LoadU(bytes, x + i)));
  return hn::ReduceSum(Ints(), sum);
}

/// Writes what the zero points of a unit are multiplied by, of the sum of its numbers (RowLayout).
HWY_INLINE void write_zero_factor(const LowBitMatrix& matrix, std::int32_t sum, std::byte* to) {
  const std::int32_t shift = -sum * (1 << (matrix.bits - 1));
  const auto real = static_cast<float>(-sum);
  const bool middle = matrix.zeros == ZeroPoints::kMiddle;
  std::memcpy(to, middle ? static_cast<const void*>(&shift) : &real, 4);
}

using FourFloats = hn::CappedTag<float, 4>;
using FourInts = hn::RebindToSigned<FourFloats>;

/// Lane i: all lanes of vector i, joined.
template <class D, class Join>
HWY_INLINE auto reduce_to_block(D d, hn::Vec<D> x, const Join& join) {
  if constexpr (hn::MaxLanes(d) <= 4) {
    return x;
  } else {
    const hn::Half<D> half;
    return reduce_to_block(half, join(hn::LowerHalf(half, x), hn::UpperHalf(half, x)), join);
  }
}
template <class D, class Join>
HWY_INLINE auto reduce_each(D d, const hn::Vec<D> (&x)[4], const Join& join) {
  const hn::Repartition<std::uint64_t, D> pairs;
  const auto two = [&](hn::Vec<D> a, hn::Vec<D> b) HWY_ATTR {
    return hn::BitCast(pairs, join(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b)));
  };
  const auto ab = two(x[0], x[1]), ce = two(x[2], x[3]);
  const auto all = join(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                        hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
  return reduce_to_block(d, all, join);
}

/// Four whole blocks at once, which are units: the same numbers as one by one, without waiting for each division.
template <bool kZeros>
HWY_INLINE void prepare_four_blocks(const LowBitMatrix& matrix, const RowLayout& layout,
                                    const float* x, std::int64_t k, std::byte* to) {
  const Floats d;
  const Words words;
  const FourFloats df;
  const FourInts di;
  const hn::Rebind<std::int8_t, Ints> bytes;
  const auto lanes = static_cast<std::int64_t>(kLanes);
  hn::Vec<Words> most[4];
  for (std::int64_t b = 0; b < 4; ++b) {
    most[b] = hn::Zero(words);
    for (std::int64_t i = 0; i < matrix.block; i += lanes)
      most[b] =
          hn::Max(most[b], hn::BitCast(words, hn::Abs(hn::LoadU(d, x + k + b * matrix.block + i))));
  }
  const auto largest = hn::BitCast(
      df, reduce_each(words, most, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); }));
  const auto some = hn::IfThenElseZero(hn::Ge(largest, hn::Set(df, 1e-34F)),
                                       hn::Div(largest, hn::Set(df, 127.0F)));
  const auto finite = hn::Le(largest, hn::Set(df, std::numeric_limits<float>::max()));
  const auto nan = hn::Set(df, std::numeric_limits<float>::quiet_NaN());
  const auto step = hn::IfThenElse(finite, some, nan);
  const auto by = hn::IfThenElseZero(hn::Gt(step, hn::Zero(df)), hn::Div(hn::Set(df, 1.0F), step));
  HWY_ALIGN float factors[4];
  hn::StoreU(by, df, factors);
  auto* values = reinterpret_cast<std::int8_t*>(to) + k;
  hn::Vec<Ints> sum[4];
  for (std::int64_t b = 0; b < 4; ++b) {
    const auto factor = hn::Set(d, factors[b]);
    sum[b] = hn::Zero(Ints());
    for (std::int64_t i = b * matrix.block; i < (b + 1) * matrix.block; i += lanes) {
      const auto whole = hn::NearestInt(hn::Mul(hn::LoadU(d, x + k + i), factor));
      sum[b] = hn::Add(sum[b], whole);
      hn::StoreU(hn::DemoteTo(bytes, whole), bytes, values + i);
    }
  }
  const std::int64_t unit = k / layout.unit;
  hn::StoreU(step, df, reinterpret_cast<float*>(to + layout.scales_offset) + unit);
  if constexpr (!kZeros) return;
  const auto minus =
      hn::Neg(reduce_each(Ints(), sum, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); }));
  auto* zeros = to + layout.zeros_offset + unit * 4;
  if (matrix.zeros == ZeroPoints::kMiddle)
    hn::StoreU(hn::Mul(minus, hn::Set(di, 1 << (matrix.bits - 1))), di,
               reinterpret_cast<std::int32_t*>(zeros));
  else
    hn::StoreU(hn::ConvertTo(df, minus), df, reinterpret_cast<float*>(zeros));
}

/// kZeros: with what zero points are multiplied by.
template <bool kZeros>
HWY_NOINLINE void prepare_int8_row(const LowBitMatrix& matrix, const RowLayout& layout,
                                   const float* x, std::byte* to) {
  auto* values = reinterpret_cast<std::int8_t*>(to);
  std::int64_t k = 0;
  if (layout.unit == matrix.block && matrix.block % static_cast<std::int64_t>(kLanes) == 0)
    for (; k + 4 * matrix.block <= matrix.k; k += 4 * matrix.block)
      prepare_four_blocks<kZeros>(matrix, layout, x, k, to);
  for (; k < layout.padded; k += matrix.block) {
    const std::int64_t count = std::min(matrix.block, matrix.k - k);
    const float step = step_of(x + k, count);
    quantise(x + k, count, matrix.block, step, values + k);
    for (std::int64_t unit = k / layout.unit; unit < (k + matrix.block) / layout.unit; ++unit) {
      std::memcpy(to + layout.scales_offset + unit * 4, &step, 4);
      if constexpr (!kZeros) continue;
      write_zero_factor(matrix, sum_of(values + unit * layout.unit, layout.unit),
                        to + layout.zeros_offset + unit * 4);
    }
  }
}

/// The elements p, 4 + p... of each word: those whose bits begin at kBits * p of a byte.
template <std::size_t kBits>
HWY_INLINE hn::Vec<Words> bytes_of(hn::Vec<Words> word, std::size_t p) {
  if constexpr (kBits == 8) return word;
  const auto mask = hn::Set(Words(), ((1U << kBits) - 1) * 0x01010101U);
  if (p == 0) return hn::And(word, mask);
  if (p == 1) return hn::And(hn::ShiftRight<kBits>(word), mask);
  if (p == 2) return hn::And(hn::ShiftRight<kBits * 2 % 32>(word), mask);
  return hn::And(hn::ShiftRight<kBits * 3 % 32>(word), mask);
}

/// Tiles that are multiplied at once, from `column` of the first one on: only one, where not all of its columns are.
struct TilesAtOnce {
  const std::byte* first;
  std::size_t column;
  std::size_t ahead;  // bytes that are fetched before they are used, by one row
};

/// What kernels read of tiles, as they go along.
struct TileReader {
  const std::byte* word;    // of the first column
  const std::byte* scales;  // of the block
  const std::byte* zeros;
  std::size_t pitch;  // bytes, from a tile to the next one
  std::size_t ahead;  // 0: nothing is fetched
};

/// The same of prepared rows.
struct RowReader {
  const std::byte* x;
  const std::byte* scale;
  const std::byte* zero;
  std::size_t stride;
};

constexpr std::size_t kWordRow = kLowBitColumns * 4;  // bytes

/// Bytes from the first vector of columns to vector `v`, which may be in the next tile.
template <std::size_t kColumnBytes>
HWY_INLINE std::size_t vector_offset(std::size_t v, std::size_t pitch) {
  return v / kTileVectors * pitch + v % kTileVectors * kLanes * kColumnBytes;
}

template <std::size_t kVectors>
HWY_INLINE void fetch_words(const std::byte* word, const TileReader& tile) {
  HWY_UNROLL(8)
  for (std::size_t v = 0; v < kVectors; ++v)
    hwy::Prefetch(word + vector_offset<4>(v, tile.pitch) + tile.ahead);
}

template <bool kFetch, std::size_t kVectors>
HWY_INLINE void load_words(const TileReader& tile, hn::Vec<Words> (&to)[kVectors]) {
  if constexpr (kFetch) fetch_words<kVectors>(tile.word, tile);
  HWY_UNROLL(8)
  for (std::size_t v = 0; v < kVectors; ++v)
    to[v] = hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(
                                   tile.word + vector_offset<4>(v, tile.pitch)));
}

/// Zero points of `kVectors` vectors of columns, where there are any.
template <std::size_t kVectors>
HWY_INLINE void load_zeros(ZeroPoints form, const std::byte* zeros, std::size_t pitch,
                           hn::Vec<Floats> (&to)[kVectors]) {
  const hn::Rebind<std::uint8_t, Ints> bytes;
  HWY_UNROLL(8)
  for (std::size_t v = 0; v < kVectors; ++v) {
    to[v] = hn::Zero(Floats());
    if (form == ZeroPoints::kInteger)
      to[v] = hn::ConvertTo(
          Floats(),
          hn::PromoteTo(Ints(), hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(
                                                     zeros + vector_offset<1>(v, pitch)))));
    else if (form == ZeroPoints::kFloat)
      to[v] =
          hn::LoadU(Floats(), reinterpret_cast<const float*>(zeros + vector_offset<4>(v, pitch)));
  }
}

/// The sums of a unit of `words` words.
template <class Dot, std::size_t kBits, bool kOnce, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_unit(std::size_t words, TileReader& tile, RowReader& rows,
                         typename Dot::Sum (&sum)[kRows][kVectors]) {
  constexpr std::size_t kParts = 8 / kBits;
  for (std::size_t j = 0; j < words; ++j) {
    hn::Vec<Words> from[kVectors], bytes[kVectors];
    load_words<kOnce>(tile, from);
    unrolled<kParts>([&](auto p) CTXGEN_UNROLLED {
      unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { bytes[v] = bytes_of<kBits>(from[v], p); });
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
        const auto by = Dot::four(load_four(rows.x + r * rows.stride + p * 4));
        unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { Dot::add(sum[r][v], bytes[v], by); });
      });
    });
    tile.word += kWordRow;
    rows.x += 4 * kParts;
  }
}

/// Adds the sums of a unit, less their zero points and scaled, to `totals`.
template <class Dot, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void scale_unit(bool middle, const TileReader& tile, const RowReader& rows,
                           const hn::Vec<Floats> (&zeros)[kVectors],
                           const typename Dot::Sum (&sum)[kRows][kVectors],
                           hn::Vec<Floats> (&totals)[kRows][kVectors]) {
  const Floats d;
  const Ints di;
  HWY_UNROLL(8)
  for (std::size_t v = 0; v < kVectors; ++v) {
    const auto scale =
        hn::LoadU(d, reinterpret_cast<const float*>(tile.scales + vector_offset<4>(v, tile.pitch)));
    HWY_UNROLL(8)
    for (std::size_t r = 0; r < kRows; ++r) {
      const auto four = spread_four(rows.zero + r * rows.stride);
      const auto first = middle ? four : hn::Zero(di);
      auto value = hn::ConvertTo(d, Dot::end(sum[r][v], first));
      if (!middle) value = hn::MulAdd(zeros[v], hn::BitCast(d, four), value);
      const auto step = hn::BitCast(d, spread_four(rows.scale + r * rows.stride));
      totals[r][v] = hn::MulAdd(value, hn::Mul(scale, step), totals[r][v]);
    }
  }
}

template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void store_sums(const hn::Vec<Floats> (&totals)[kRows][kVectors], std::size_t column,
                           float* sums) {
  HWY_UNROLL(8)
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      hn::StoreU(totals[r][v], Floats(), sums + r * kLowBitColumns + column + v * kLanes);
}

/// Calls take(tile, rows, zero points, sums) for each unit of `kVectors` vectors of columns times `kRows` prepared rows.
/// kOnce: tiles are read once, and from memory.
template <class Dot, std::size_t kBits, std::size_t kRows, std::size_t kVectors, bool kOnce,
          class Take>
HWY_INLINE void for_units(const LowBitMatrix& matrix, const RowLayout& layout,
                          const std::byte* prepared, const TilesAtOnce& from, const Take& take) {
  static_assert(kOnce || kVectors <= kTileVectors);
  const LowBitLayout packed(matrix);
  const bool middle = matrix.zeros == ZeroPoints::kMiddle;
  const auto words = static_cast<std::size_t>(layout.unit) * kBits / 32;
  hn::Vec<Floats> zeros[kVectors];
  RowReader rows{prepared, prepared + layout.scales_offset, prepared + layout.zeros_offset,
                 static_cast<std::size_t>(layout.row_bytes)};
  TileReader tile{from.first + from.column * 4, nullptr,
                  from.first + packed.zeros_offset + from.column,
                  static_cast<std::size_t>(packed.tile_bytes), from.ahead};
  for (std::int64_t block = 0; block < packed.blocks; ++block) {
    tile.scales = tile.word + static_cast<std::size_t>(packed.block_words) * kWordRow;
    load_zeros(matrix.zeros, tile.zeros, tile.pitch, zeros);
    if constexpr (kOnce) fetch_words<kVectors>(tile.scales, tile);
    for (std::int64_t done = 0; done < matrix.block; done += layout.unit) {
      typename Dot::Sum sum[kRows][kVectors];
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
        const auto four = spread_four(rows.zero + r * rows.stride);
        const auto first = Dot::start(middle ? four : hn::Zero(Ints()));
        unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sum[r][v] = first; });
      });
      add_unit<Dot, kBits, kOnce>(words, tile, rows, sum);
      take(tile, rows, zeros, sum);
      rows.scale += 4;
      rows.zero += 4;
    }
    tile.word += kWordRow;  // the scales
    tile.zeros += kLowBitColumns;
  }
}

/// `kVectors` vectors of columns times `kRows` prepared rows: sums[r * kLowBitColumns + c], without bias. One row may
/// take the columns of several tiles.
template <class Dot, std::size_t kBits, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void int8_columns(const LowBitMatrix& matrix, const RowLayout& layout,
                             const std::byte* prepared, const TilesAtOnce& from, float* sums) {
  hn::Vec<Floats> totals[kRows][kVectors];
  for (auto& row : totals)
    for (auto& total : row) total = hn::Zero(Floats());
  for_units<Dot, kBits, kRows, kVectors, kRows == 1>(
      matrix, layout, prepared, from,
      [&](const TileReader& tile, const RowReader& rows, const auto& zeros, const auto& sum)
          HWY_ATTR {
            scale_unit<Dot>(matrix.zeros == ZeroPoints::kMiddle, tile, rows, zeros, sum, totals);
          });
  store_sums(totals, from.column, sums);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
