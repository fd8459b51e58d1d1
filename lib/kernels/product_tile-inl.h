// Tiles of products of gathered rows by packed panels. Compiled once per instruction set, so without a
// plain include guard.
#if defined(CTXGEN_KERNELS_PRODUCT_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#undef CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#else
#define CTXGEN_KERNELS_PRODUCT_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "prefetch.h"
#include "vectors-inl.h"
#include "window_rows.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

inline constexpr std::size_t kTileRegisters = kLanes >= 16 ? 28 : kLanes >= 8 ? 12 : 8;
inline constexpr std::size_t kMostTileRows = kLanes >= 16 ? 14 : kLanes >= 8 ? 6 : 4;

/// Steps of a tile's depth in a turn of its loop, whose counting takes turns of the units that multiply. Measured
/// (docs/onednn.md, "Packed weights"): two are 3 to 6 % faster than one, four no faster than two. One row that waits for
/// memory is 5 % slower by two with AVX-512.
inline constexpr int kStepsAtOnce = 2;
inline constexpr int kStepsOfStream = kLanes >= 16 ? 1 : 2;

/// Rows of a tile of so many vectors of columns at most: its sums, a step's columns and an element fill the
/// registers. With AVX-512, seven rows of four vectors would keep one sum in memory (5 % slower).
template <std::size_t kVectors>
constexpr std::size_t kRowsOf =
    kLanes >= 16 && kVectors == 4 ? 6 : HWY_MIN(kTileRegisters / kVectors, kMostTileRows);

/// Steps of a tile's depth in a turn in which it asks for memory ahead, and how many of them its loop takes at once. Measured
/// (docs/onednn.md, "Packed weights"): more often, requests hold up what the tile itself reads.
inline constexpr std::int64_t kStepsOfTurn = 16;
inline constexpr int kStepsBesideRequests = 4;

/// Lines of memory that a tile asks for while it multiplies, into the second cache: its share of what the next unit's
/// tiles will read, from several places at once. Measured (docs/onednn.md, "Packed weights"): one place does not keep the
/// memory busy.
struct Ahead {
  static constexpr std::int64_t kPlaces = 4;
  std::array<const std::byte*, kPlaces> places{};
  std::int64_t lines = 0;          // of each place; 0: it asks for nothing
  std::int64_t lines_of_turn = 0;  // of each place
};

/// What a tile multiplies and where its sums go. All its columns are there (multiply_narrow() sees to
/// that).
struct Tile {
  const float* src;
  const std::int64_t* offsets;  // of its rows
  const Run* runs;
  std::size_t run_count;
  const float* panel;  // at the tile's first column, with the rows from `first` on
  std::int64_t first;
  std::int64_t block;
  std::int64_t half;  // of four vectors: floats to the third one, which may be in another panel
  const std::int64_t* numbers;  // of its rows in what follows, which is at its first column, too
  const float* from;            // the sums so far; null: none
  std::int64_t from_pitch;
  const float* bias;  // null: none
  float* to;
  std::int64_t to_pitch;
  const Finish* finish;  // null: more chunks follow
  bool clamped;          // the finish has a bound
  Ahead ahead;
};

template <std::size_t kRows, std::size_t kVectors>
using Sums = FloatVector[kRows][kVectors];

/// Bias and clamp, after the last chunk.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void finish_sums(const Tile& t, Sums<kRows, kVectors>& sums) {
  const Floats d;
  if (t.bias != nullptr)
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      const auto add = hn::LoadU(d, t.bias + v * kLanes);
      unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { sums[r][v] = hn::Add(sums[r][v], add); });
    });
  if (!t.clamped) return;
  const auto low = hn::Set(d, t.finish->low), high = hn::Set(d, t.finish->high);
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED { sums[r][v] = clamp(sums[r][v], low, high); });
  });
}

/// Asks for the lines of a turn, from number `line` on. Returns the number of the next turn's first.
HWY_INLINE std::int64_t ask_ahead(const Ahead& ahead, std::int64_t line) {
  for (const std::int64_t end = line + ahead.lines_of_turn; line < end; ++line)
    for (const std::byte* place : ahead.places) prefetch_second(place + line * kLineBytes);
  return line;
}

/// Adds the products of step k: those of each row's element there by kVectors vectors at `b`, the last two of four at b + half.
template <std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_step(const float* const (&a)[kRows], std::int64_t k,
                         const float* HWY_RESTRICT b, [[maybe_unused]] std::int64_t half,
                         Sums<kRows, kVectors>& sums) {
  const Floats d;
  FloatVector columns[kVectors];
  unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
    const float* from = kVectors == 4 && v >= 2 ? b + half + (v - 2) * kLanes : b + v * kLanes;
    columns[v] = hn::LoadU(d, from);
  });
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const FloatVector x = hn::Set(d, a[r][k]);
    unrolled<kVectors>([&](auto v)
                           CTXGEN_UNROLLED { sums[r][v] = hn::MulAdd(x, columns[v], sums[r][v]); });
  });
}

/// Adds the products of a chunk.
template <std::size_t kRows, std::size_t kVectors, bool kAhead>
HWY_INLINE void add_products(const Tile& t, Sums<kRows, kVectors>& sums) {
  const std::int64_t half = t.half;
  std::int64_t line = 0;
  for (std::size_t i = 0; i < t.run_count; ++i) {
    const Run& run = t.runs[i];
    const float* HWY_RESTRICT b = t.panel + (run.depth - t.first) * t.block;
    const float* a[kRows];
    unrolled<kRows>([&](auto r) CTXGEN_UNROLLED { a[r] = t.src + t.offsets[r] + run.src; });
    std::int64_t k = 0;
    if constexpr (kAhead) {
#pragma GCC unroll kStepsOfStream
      for (; k < run.count; ++k, b += t.block) {
        unrolled<kVectors>([&](auto v)
                               CTXGEN_UNROLLED { prefetch(b + v * kLanes, kPrefetchBytes); });
        add_step<kRows, kVectors>(a, k, b, half, sums);
      }
    } else {
      for (; line < t.ahead.lines && k + kStepsOfTurn <= run.count; k += kStepsOfTurn) {
        line = ask_ahead(t.ahead, line);
#pragma GCC unroll kStepsBesideRequests
        for (std::int64_t s = 0; s < kStepsOfTurn; ++s, b += t.block)
          add_step<kRows, kVectors>(a, k + s, b, half, sums);
      }
#pragma GCC unroll kStepsAtOnce
      for (; k < run.count; ++k, b += t.block) add_step<kRows, kVectors>(a, k, b, half, sums);
    }
  }
}

/// kRows rows times kVectors vectors of columns. kAhead: the panels are asked for before they are read.
template <std::size_t kRows, std::size_t kVectors, bool kAhead>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  const Floats d;
  Sums<kRows, kVectors> sums;
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    const float* row = t.from == nullptr ? nullptr : t.from + t.numbers[r] * t.from_pitch;
    unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
      sums[r][v] = row == nullptr ? hn::Zero(d) : hn::LoadU(d, row + v * kLanes);
    });
  });
  add_products<kRows, kVectors, kAhead>(t, sums);
  if (t.finish != nullptr) finish_sums<kRows, kVectors>(t, sums);
  unrolled<kRows>([&](auto r) CTXGEN_UNROLLED {
    float* row = t.to + t.numbers[r] * t.to_pitch;
    unrolled<kVectors>([&](auto v)
                           CTXGEN_UNROLLED { hn::StoreU(sums[r][v], d, row + v * kLanes); });
  });
}

/// One row times kVectors vectors of columns of each of kPanels panels, `pitch` floats from one to the next.
/// The columns of the result are those of the panels, one after the other; each sum is as multiply_tile() has it.
template <std::size_t kPanels, std::size_t kVectors>
HWY_NOINLINE void multiply_streams(const Tile& t, std::int64_t pitch) {
  const Floats d;
  constexpr std::size_t kPanelColumns = kVectors * kLanes;
  Sums<1, kPanels * kVectors> sums;
  const float* row = t.from == nullptr ? nullptr : t.from + t.numbers[0] * t.from_pitch;
  unrolled<kPanels * kVectors>([&](auto v) CTXGEN_UNROLLED {
    sums[0][v] = row == nullptr ? hn::Zero(d) : hn::LoadU(d, row + v * kLanes);
  });
  for (std::size_t i = 0; i < t.run_count; ++i) {
    const Run& run = t.runs[i];
    const float* HWY_RESTRICT a = t.src + t.offsets[0] + run.src;
    const float* panels[kPanels];
    unrolled<kPanels>([&](auto s) CTXGEN_UNROLLED {
      panels[s] = t.panel + static_cast<std::int64_t>(s) * pitch +
                  (run.depth - t.first) * static_cast<std::int64_t>(kPanelColumns);
    });
    for (std::int64_t k = 0; k < run.count; ++k) {
      const FloatVector x = hn::Set(d, a[k]);
      unrolled<kPanels>([&](auto s) CTXGEN_UNROLLED {
        const float* b = panels[s] + k * static_cast<std::int64_t>(kPanelColumns);
        unrolled<kVectors>([&](auto v) CTXGEN_UNROLLED {
          auto& sum = sums[0][s * kVectors + v];
          sum = hn::MulAdd(x, hn::LoadU(d, b + v * kLanes), sum);
        });
      });
    }
  }
  if (t.finish != nullptr) finish_sums<1, kPanels * kVectors>(t, sums);
  float* to = t.to + t.numbers[0] * t.to_pitch;
  unrolled<kPanels * kVectors>([&](auto v)
                                   CTXGEN_UNROLLED { hn::StoreU(sums[0][v], d, to + v * kLanes); });
}

using TileFunction = void (*)(const Tile&);

/// By rows less one: functions for tiles of kVectors vectors.
template <std::size_t kVectors>
constexpr auto kTiles = []<std::size_t... r>(std::index_sequence<r...>) {
  return std::array<TileFunction, sizeof...(r)>{&multiply_tile<r + 1, kVectors, false>...};
}(std::make_index_sequence<kRowsOf<kVectors>>());

/// A tile of which the result has the first `columns` only: by copies that have them all.
inline HWY_NOINLINE void multiply_narrow(TileFunction multiply, Tile tile, std::int64_t rows,
                                         std::int64_t columns) {
  constexpr std::int64_t kMostColumns = 64;
  static constexpr auto kNumbers =
      []<std::int64_t... r>(std::integer_sequence<std::int64_t, r...>) {
        return std::array<std::int64_t, sizeof...(r)>{r...};
      }(std::make_integer_sequence<std::int64_t, kMostTileRows>());
  HWY_ALIGN float sums[kMostTileRows * kMostColumns] = {};
  HWY_ALIGN float bias[kMostColumns] = {};
  const auto count = static_cast<std::size_t>(columns);
  const std::int64_t* numbers = tile.numbers;
  if (tile.from != nullptr)
    for (std::int64_t r = 0; r < rows; ++r)
      hwy::CopyBytes(tile.from + numbers[r] * tile.from_pitch, sums + r * kMostColumns,
                     count * sizeof(float));
  if (tile.bias != nullptr) hwy::CopyBytes(tile.bias, bias, count * sizeof(float));
  float* to = tile.to;
  const std::int64_t pitch = tile.to_pitch;
  tile.from = tile.to = sums;
  tile.from_pitch = tile.to_pitch = kMostColumns;
  tile.numbers = kNumbers.data();
  if (tile.bias != nullptr) tile.bias = bias;
  multiply(tile);
  for (std::int64_t r = 0; r < rows; ++r)
    hwy::CopyBytes(sums + r * kMostColumns, to + numbers[r] * pitch, count * sizeof(float));
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
