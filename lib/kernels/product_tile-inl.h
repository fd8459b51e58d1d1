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
  bool clamped;      // the finish has a bound
};

/// The vector of columns that begins `skip` columns after a tile's first one; kWhole: all are there.
template <bool kWhole>
HWY_INLINE FloatVector load_columns(const Tile& t, const float* from, std::int64_t skip) {
  const Floats d;
  const std::int64_t count = t.columns - skip;
  if (kWhole || count >= static_cast<std::int64_t>(kLanes)) return hn::LoadU(d, from + skip);
  return count > 0 ? hn::LoadN(d, from + skip, static_cast<std::size_t>(count)) : hn::Zero(d);
}

template <bool kWhole>
HWY_INLINE void store_columns(const Tile& t, FloatVector value, float* to, std::int64_t skip) {
  const Floats d;
  const std::int64_t count = t.columns - skip;
  if (kWhole || count >= static_cast<std::int64_t>(kLanes))
    hn::StoreU(value, d, to + skip);
  else if (count > 0)
    hn::StoreN(value, d, to + skip, static_cast<std::size_t>(count));
}

/// NaN stays: it compares as neither, and x86's Max and Min return their second operand then.
HWY_INLINE FloatVector clamp(FloatVector x, FloatVector low, FloatVector high) {
#if HWY_ARCH_X86
  return hn::Min(high, hn::Max(low, x));
#else
  x = hn::IfThenElse(hn::Lt(x, low), low, x);
  return hn::IfThenElse(hn::Gt(x, high), high, x);
#endif
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

template <std::size_t kRows, std::size_t kVectors>
using Sums = FloatVector[kRows][kVectors];

/// The sums so far: of the chunks before, or what the product starts from.
template <std::size_t kRows, std::size_t kVectors, bool kWhole>
HWY_INLINE void load_sums(const Tile& t, const float* from, std::int64_t pitch,
                          Sums<kRows, kVectors>& sums) {
  from += t.row * pitch + t.column;
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const float* row = from + t.numbers[r] * pitch;
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      sums[r][v] = load_columns<kWhole>(t, row, static_cast<std::int64_t>(v * kLanes));
    });
  });
}

/// Bias and clamp, after the last chunk.
template <std::size_t kRows, std::size_t kVectors, bool kWhole>
HWY_INLINE void finish_sums(const Tile& t, Sums<kRows, kVectors>& sums) {
  const Floats d;
  if (const float* bias = t.finish->bias; bias != nullptr)
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const auto add =
          load_columns<kWhole>(t, bias + t.column, static_cast<std::int64_t>(v * kLanes));
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { sums[r][v] = hn::Add(sums[r][v], add); });
    });
  if (!t.clamped) return;
  const auto low = hn::Set(d, t.finish->low), high = hn::Set(d, t.finish->high);
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sums[r][v] = clamp(sums[r][v], low, high); });
  });
}

template <std::size_t kRows, std::size_t kVectors, bool kWhole>
HWY_INLINE void store_sums(const Tile& t, Sums<kRows, kVectors>& sums) {
  if (t.last) finish_sums<kRows, kVectors, kWhole>(t, sums);
  float* to = t.result + t.row * t.result_pitch + t.column;
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    float* row = to + t.numbers[r] * t.result_pitch;
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      store_columns<kWhole>(t, sums[r][v], row, static_cast<std::int64_t>(v * kLanes));
    });
  });
}

/// kRows rows times kVectors vectors of columns; with kEqual the rows are equally far apart, which
/// leaves their addresses in registers.
template <std::size_t kRows, std::size_t kVectors, bool kEqual>
HWY_INLINE void add_products(const Tile& t, Sums<kRows, kVectors>& sums) {
  const Floats d;
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
}

/// Takes the sums so far, adds the products of a chunk and writes the sums.
template <std::size_t kRows, std::size_t kVectors, bool kEqual>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  Sums<kRows, kVectors> sums;
  const bool whole = t.columns >= static_cast<std::int64_t>(kVectors * kLanes);
  const float* from = t.first ? t.finish->start : t.result;
  const std::int64_t pitch = t.first ? t.finish->start_pitch : t.result_pitch;
  if (from == nullptr)
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
      unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sums[r][v] = hn::Zero(Floats()); });
    });
  else if (whole)
    load_sums<kRows, kVectors, true>(t, from, pitch, sums);
  else
    load_sums<kRows, kVectors, false>(t, from, pitch, sums);
  add_products<kRows, kVectors, kEqual>(t, sums);
  if (whole)
    store_sums<kRows, kVectors, true>(t, sums);
  else
    store_sums<kRows, kVectors, false>(t, sums);
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
