// Tiles of products of gathered rows by packed panels. Compiled once per instruction set, so without a
// plain include guard.
#if defined(CTXGEN_KERNELS_PRODUCT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#undef CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#else
#define CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <utility>

#include "window_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using FloatVector = hn::Vec<Floats>;

// Lanes of a vector as a constant: all our instruction sets have one.
inline constexpr std::size_t kLanes = hn::MaxLanes(Floats());
inline constexpr std::size_t kTileRegisters = kLanes >= 16 ? 28 : kLanes >= 8 ? 12 : 8;
inline constexpr std::size_t kMostTileRows = kLanes >= 16 ? 14 : kLanes >= 8 ? 6 : 4;

/// Rows of a tile of so many vectors of columns at most: its sums fill the registers.
template <std::size_t kVectors>
constexpr std::size_t kRowsOf = HWY_MIN(kTileRegisters / kVectors, kMostTileRows);

/// What a tile multiplies and where its sums go.
struct Tile {
  const float* src;
  const std::int64_t* offsets;  // of its rows
  const std::int64_t* numbers;
  const Run* runs;
  std::size_t run_count;
  const float* panel;  // at the tile's first column
  std::int64_t block;
  const Finish* finish;
  std::int64_t row, column;  // of the part, of the tile: the first ones in the result
  std::int64_t columns;      // that the result has from there on
  float* result;
  std::int64_t result_pitch;
  bool first, last;  // of the chunks
};

HWY_INLINE FloatVector load_some(const float* from, std::int64_t count) {
  const Floats d;
  if (count >= static_cast<std::int64_t>(kLanes)) return hn::LoadU(d, from);
  return count > 0 ? hn::LoadN(d, from, static_cast<std::size_t>(count)) : hn::Zero(d);
}

HWY_INLINE void store_some(FloatVector value, float* to, std::int64_t count) {
  const Floats d;
  if (count >= static_cast<std::int64_t>(kLanes))
    hn::StoreU(value, d, to);
  else if (count > 0)
    hn::StoreN(value, d, to, static_cast<std::size_t>(count));
}

/// NaN compares as neither and stays.
HWY_INLINE FloatVector clamp(FloatVector x, float low, float high) {
  const Floats d;
  const auto least = hn::Set(d, low), most = hn::Set(d, high);
  x = hn::IfThenElse(hn::Lt(x, least), least, x);
  return hn::IfThenElse(hn::Gt(x, most), most, x);
}

// A lambda whose code becomes the caller's: sums whose address it took stay in registers.
#undef CTXGEN_UNROLLED
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
#define CTXGEN_UNROLLED HWY_ATTR __attribute__((always_inline))
#else
#define CTXGEN_UNROLLED HWY_ATTR
#endif

/// Calls function with each number below kCount as a constant.
template <std::size_t kCount>
HWY_INLINE void unrolled(const auto& function) {
  [&]<std::size_t... k>(std::index_sequence<k...>) CTXGEN_UNROLLED {
    (function(std::integral_constant<std::size_t, k>()), ...);
  }(std::make_index_sequence<kCount>());
}

/// The sums so far of a tile's row: of the chunks before, or what the product starts from.
template <std::size_t kVectors>
HWY_INLINE void load_sums(const Tile& t, std::size_t r, FloatVector* sums) {
  const std::int64_t row = t.row + t.numbers[r];
  const float* from = !t.first                     ? t.result + row * t.result_pitch
                      : t.finish->start != nullptr ? t.finish->start + row * t.finish->start_pitch
                                                   : nullptr;
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto skip = static_cast<std::int64_t>(v * kLanes);
    sums[v] =
        from == nullptr ? hn::Zero(Floats()) : load_some(from + t.column + skip, t.columns - skip);
  });
}

template <std::size_t kVectors>
HWY_INLINE void store_sums(const Tile& t, std::size_t r, const FloatVector* sums) {
  float* to = t.result + (t.row + t.numbers[r]) * t.result_pitch + t.column;
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const auto skip = static_cast<std::int64_t>(v * kLanes);
    FloatVector value = sums[v];
    if (t.last) {
      if (t.finish->bias != nullptr)
        value = hn::Add(value, load_some(t.finish->bias + t.column + skip, t.columns - skip));
      value = clamp(value, t.finish->low, t.finish->high);
    }
    store_some(value, to + skip, t.columns - skip);
  });
}

/// kRows rows times kVectors vectors of columns; with kEqual the rows are equally far apart, which
/// leaves their addresses in registers.
template <std::size_t kRows, std::size_t kVectors, bool kEqual>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  const Floats d;
  FloatVector sums[kRows][kVectors];
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { load_sums<kVectors>(t, r, sums[r]); });
  const std::int64_t apart = kRows > 1 ? t.offsets[1] - t.offsets[0] : 0;
  for (std::size_t i = 0; i < t.run_count; ++i) {
    const Run& run = t.runs[i];
    const float* HWY_RESTRICT b = t.panel + run.depth * t.block;
    const float* a[kEqual ? (kRows + 2) / 3 : kRows];
    if constexpr (kEqual)
      unrolled<(kRows + 2) / 3>([&](auto r)
                                    CTXGEN_UNROLLED { a[r] = t.src + t.offsets[3 * r] + run.src; });
    else
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { a[r] = t.src + t.offsets[r] + run.src; });
    const auto at = [&](std::size_t r, std::int64_t k) CTXGEN_UNROLLED {
      if constexpr (kEqual)
        return a[r / 3][k + static_cast<std::int64_t>(r % 3) * apart];
      else
        return a[r][k];
    };
    for (std::int64_t k = 0; k < run.count; ++k, b += t.block) {
      FloatVector columns[kVectors];
      unrolled<kVectors>([&](auto v)
                             CTXGEN_UNROLLED { columns[v] = hn::LoadU(d, b + v * kLanes); });
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
        const FloatVector x = hn::Set(d, at(r, k));
        unrolled<kVectors>(
            [&](auto v) CTXGEN_UNROLLED { sums[r][v] = hn::MulAdd(x, columns[v], sums[r][v]); });
      });
    }
  }
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { store_sums<kVectors>(t, r, sums[r]); });
}

using TileFunction = void (*)(const Tile&);

/// By rows less one: functions for tiles of kVectors vectors.
template <std::size_t kVectors, bool kEqual>
constexpr auto kTiles = []<std::size_t... r>(std::index_sequence<r...>) {
  return std::array<TileFunction, sizeof...(r)>{&multiply_tile<r + 1, kVectors, kEqual>...};
}(std::make_index_sequence<kRowsOf<kVectors>>());

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
