// Rows of 8-bit integers times packed low-bit blocks in the tiles of AMX, both in bfloat16: many rows. Compiled once per instruction
// set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_HALVES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_HALVES_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_HALVES_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_HALVES_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/amx.h"

#include "low_bit/low_bit_amx-inl.h"
#include "low_bit/low_bit_int8-inl.h"
#include "prefetch.h"
#include "stretches.h"

#if CTXGEN_LOW_BIT_AMX
HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

using Halves = hn::Repartition<std::uint16_t, Floats>;

/// Elements of columns that are unpacked at a time, at most: 16 KiB.
constexpr std::int64_t kHalvesPanel = 256;
constexpr std::int64_t kHalfPanel = kHalvesPanel * kAmxRows * 2;  // bytes, of 16 columns

/// The upper halves of the numbers of two vectors of integers, as bfloat16 has them.
HWY_INLINE hn::Vec<Halves> halves_of(hn::Vec<Ints> even, hn::Vec<Ints> odd) {
  const Words d;
  const auto upper = [&](hn::Vec<Ints> x)
                         HWY_ATTR { return hn::BitCast(d, hn::ConvertTo(Floats(), x)); };
  return hn::BitCast(Halves(), hn::Or(hn::ShiftRight<16>(upper(even)),
                                      hn::And(upper(odd), hn::Set(d, 0xFFFF0000U))));
}

/// Elements of a vector of columns less their zero points, in bfloat16.
template <std::size_t kBits>
class HalvesElements {
 public:
  explicit HalvesElements(ZeroPoints form) : middle_(form == ZeroPoints::kMiddle) {
    HWY_ALIGN std::uint16_t table[kEntries];
    for (std::size_t i = 0; i < kEntries; ++i) {
      const auto value = static_cast<int>(i);
      const auto real = static_cast<float>(middle_      ? value % kValues - kValues / 2
                                           : value < 16 ? value
                                                        : value - 32);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &real, sizeof bits);
      table[i] = static_cast<std::uint16_t>(bits >> 16U);
    }
    table_ = hn::Load(Halves(), table);
  }

  /// Elements whose bits begin at `kFirst` of each half of a word. `zeros`: of each half of a column.
  template <std::size_t kFirst>
  [[nodiscard]] HWY_INLINE hn::Vec<Halves> at(hn::Vec<Halves> words, hn::Vec<Halves> zeros) const {
    const Halves d;
    auto x = kFirst == 0 ? words : hn::ShiftRight<kFirst>(words);
    if constexpr (kFirst + kBits < 16) x = hn::And(x, hn::Set(d, kValues - 1));
    if constexpr (kBits == 8) {
      const auto both = hn::BitCast(Ints(), hn::Sub(x, zeros));
      return halves_of(hn::ShiftRight<16>(hn::ShiftLeft<16>(both)), hn::ShiftRight<16>(both));
    } else {
      if (!middle_) x = hn::And(hn::Sub(x, zeros), hn::Set(d, kEntries - 1));
      return hn::TableLookupLanes(table_, hn::IndicesFromVec(d, x));
    }
  }

  /// The zero points of the columns from `from` on.
  [[nodiscard]] HWY_INLINE hn::Vec<Halves> zeros(const std::byte* from) const {
    if (middle_) return hn::Set(Halves(), static_cast<std::uint16_t>(kValues / 2));
    const hn::Rebind<std::uint8_t, Words> bytes;
    const auto one =
        hn::PromoteTo(Words(), hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(from)));
    return hn::BitCast(Halves(), hn::Or(one, hn::ShiftLeft<16>(one)));
  }

 private:
  static constexpr int kValues = 1 << kBits;
  static constexpr std::size_t kEntries = 32;
  bool middle_;
  hn::Vec<Halves> table_;
};

/// Blocks [first, last) of a tile in bfloat16, the first 16 columns and then, kHalfPanel on, the others: rows of two elements of
/// each column. Of four elements the first row has 0 and 2, the second 1 and 3, as prepare_halves_row() has them.
template <std::size_t kBits>
HWY_NOINLINE void unpack_halves(const LowBitMatrix& matrix, const std::byte* tile,
                                std::int64_t first, std::int64_t last, std::byte* panel) {
  constexpr std::size_t kParts = 8 / kBits;
  const Halves d;
  const LowBitLayout layout(matrix);
  const HalvesElements<kBits> elements(matrix.zeros);
  for (std::int64_t block = first; block < last; ++block)
    for (std::size_t v = 0; v < kTileVectors; ++v) {
      const std::byte* words = tile + block * layout.block_bytes + v * kLanes * 4;
      const auto zeros = elements.zeros(tile + layout.zeros_offset + block * kLowBitColumns +
                                        static_cast<std::int64_t>(v * kLanes));
      std::byte* to = panel + static_cast<std::int64_t>(v) * kHalfPanel +
                      (block - first) * matrix.block * kAmxRows * 2;
      for (std::int64_t j = 0; j < layout.block_words; ++j, words += kWordRow) {
        const auto word = hn::LoadU(d, reinterpret_cast<const std::uint16_t*>(words));
        unrolled<kParts>([&](auto p) CTXGEN_UNROLLED {
          unrolled<2>([&](auto odd) CTXGEN_UNROLLED {
            hn::Store(elements.template at<p * kBits + odd * 8>(word, zeros), d,
                      reinterpret_cast<std::uint16_t*>(to + (p * 2 + odd) * kAmxBytes));
          });
        });
        to += kParts * 2 * kAmxBytes;
      }
    }
}

/// A row in integers, as prepare_int8_row() has them, in bfloat16, and its steps; null: a row of zeros, which fills a group up.
HWY_NOINLINE void prepare_halves_row(const LowBitMatrix& matrix, const HalvesRows& layout,
                                     const float* x, std::int64_t row, std::byte* scratch) {
  const Floats d;
  const hn::Half<Halves> half;
  HWY_ALIGN std::uint16_t order[2 * kLanes] = {};  // upper halves, in the order of unpack_halves()
  for (std::size_t i = 0; i < kLanes; ++i)
    order[i] = static_cast<std::uint16_t>(2 * (i / 4 * 4 + i % 2 * 2 + i % 4 / 2) + 1);
  const auto upper = hn::SetTableIndices(Halves(), order);
  std::byte* group = scratch + row / kAmxRows * layout.group_bytes;
  const std::int64_t r = row % kAmxRows;
  for (std::int64_t k = 0; k < layout.padded; k += matrix.block) {
    const std::int64_t count = x == nullptr ? 0 : std::min(matrix.block, matrix.k - k);
    const float step = count == 0 ? 0.0F : step_of(x + k, count);
    std::memcpy(group + layout.steps_offset + (k / matrix.block * kAmxRows + r) * 4, &step, 4);
    const auto by = hn::Set(d, step > 0 ? 1.0F / step : 0.0F);
    std::byte* to = group + k * kAmxRows * 2 + r * layout.depth * 2;
    for (std::int64_t i = 0; i < matrix.block; i += static_cast<std::int64_t>(kLanes)) {
      const std::int64_t at = i & (layout.depth - 1);  // in its tile
      const auto left = static_cast<std::size_t>(std::max<std::int64_t>(count - i, 0));
      const auto value = left >= kLanes ? hn::LoadU(d, x + k + i)
                         : left > 0     ? hn::LoadN(d, x + k + i, left)
                                        : hn::Zero(d);
      const auto numbers = hn::BitCast(Halves(), hn::Round(hn::Mul(value, by)));
      hn::Store(hn::LowerHalf(half, hn::TableLookupLanes(numbers, upper)), half,
                reinterpret_cast<std::uint16_t*>(to + (i - at) * kAmxRows * 2 + at * 2));
    }
  }
}

/// Tile `kTile` = 16 rows by 16 columns of a block, in one or more depths.
template <std::size_t kTile>
HWY_INLINE void sum_halves(const HalvesRows& layout, const std::byte* rows,
                           const std::byte* columns) {
  if constexpr (kTile == 0) CTXGEN_AMX_ZERO(0);
  if constexpr (kTile == 1) CTXGEN_AMX_ZERO(1);
  if constexpr (kTile == 2) CTXGEN_AMX_ZERO(2);
  if constexpr (kTile == 3) CTXGEN_AMX_ZERO(3);
  for (std::int64_t at = 0; at < layout.block_bytes; at += layout.tile_bytes) {
    if constexpr (kTile % 2 == 0) {
      CTXGEN_AMX_LOAD(4, rows + at, layout.depth * 2);
      CTXGEN_AMX_LOAD(6, columns + at, kAmxBytes);
    } else {
      CTXGEN_AMX_LOAD(5, rows + at, layout.depth * 2);
      CTXGEN_AMX_LOAD(7, columns + at, kAmxBytes);
    }
    if constexpr (kTile == 0) CTXGEN_AMX_ADD(tdpbf16ps, 0, 4, 6);
    if constexpr (kTile == 1) CTXGEN_AMX_ADD(tdpbf16ps, 1, 5, 7);
    if constexpr (kTile == 2) CTXGEN_AMX_ADD(tdpbf16ps, 2, 4, 6);
    if constexpr (kTile == 3) CTXGEN_AMX_ADD(tdpbf16ps, 3, 5, 7);
  }
}

/// The same of a block of 32, `kAt` bytes after `rows` and `columns`.
template <std::size_t kTile, std::int64_t kAt>
HWY_INLINE void sum_halves(const std::byte* rows, const std::byte* columns) {
  if constexpr (kTile == 0) CTXGEN_AMX_ZERO(0);
  if constexpr (kTile == 1) CTXGEN_AMX_ZERO(1);
  if constexpr (kTile == 2) CTXGEN_AMX_ZERO(2);
  if constexpr (kTile == 3) CTXGEN_AMX_ZERO(3);
  if constexpr (kTile % 2 == 0) {
    CTXGEN_AMX_LOAD_AT(4, rows, kAt, kAmxBytes);
    CTXGEN_AMX_LOAD_AT(6, columns, kAt, kAmxBytes);
  } else {
    CTXGEN_AMX_LOAD_AT(5, rows, kAt, kAmxBytes);
    CTXGEN_AMX_LOAD_AT(7, columns, kAt, kAmxBytes);
  }
  if constexpr (kTile == 0) CTXGEN_AMX_ADD(tdpbf16ps, 0, 4, 6);
  if constexpr (kTile == 1) CTXGEN_AMX_ADD(tdpbf16ps, 1, 5, 7);
  if constexpr (kTile == 2) CTXGEN_AMX_ADD(tdpbf16ps, 2, 4, 6);
  if constexpr (kTile == 3) CTXGEN_AMX_ADD(tdpbf16ps, 3, 5, 7);
}

template <std::size_t kTile>
HWY_INLINE void store_halves(float (&sums)[4][kAmxRows * kLanes]) {
  if constexpr (kTile == 0) CTXGEN_AMX_STORE_AT(0, sums, 0, kAmxBytes);
  if constexpr (kTile == 1) CTXGEN_AMX_STORE_AT(1, sums, 1024, kAmxBytes);
  if constexpr (kTile == 2) CTXGEN_AMX_STORE_AT(2, sums, 2048, kAmxBytes);
  if constexpr (kTile == 3) CTXGEN_AMX_STORE_AT(3, sums, 3072, kAmxBytes);
}

/// Where totals of a tile go: `whole` rows to `out`, where all columns exist, the others to `rest`.
struct HalvesResults {
  float* out;          // the tile's first column of row 0
  std::int64_t n;      // columns of the result
  const float* bias;   // of the tile, or null
  std::int64_t whole;  // groups of rows
  float* rest;         // [groups * kAmxRows, kLowBitColumns]: also for totals that are not complete
};

/// Some blocks of a tile and the rows that they are multiplied by.
struct HalvesPanel {
  const std::byte* columns;  // as unpack_halves() leaves them
  const std::byte* scales;   // of the first block
  const std::byte* rows;     // of the first group, at the first block
  const std::byte* steps;    // of the same
  std::int64_t blocks, groups;
  bool first, last;  // of the tile: totals begin at nothing, or are complete
  HalvesResults results;
  const std::byte* next;       // asked for meanwhile, which may be outside of any object
  std::int64_t lines_of_turn;  // so many cache lines with each 16 rows by 16 columns
};

/// Asks for lines in the second cache.
HWY_INLINE void ask_for(const std::byte*& next, std::int64_t lines) {
  for (std::int64_t line = 0; line < lines; ++line, next += kLineBytes) prefetch_second(next);
}

/// Where a walk over groups of rows, both halves of the columns and blocks, in this order, is.
struct HalvesCursor {
  const std::byte *rows, *columns;
  std::int64_t block = 0;
  bool second = false;  // half of the columns

  /// Goes on by a block: `row_bytes` and `column_bytes`. Says whether one of 16 rows by 16 columns is done.
  HWY_INLINE bool next(std::int64_t blocks, std::int64_t row_bytes, std::int64_t column_bytes,
                       std::int64_t half_bytes, std::int64_t group_bytes) {
    rows += row_bytes;
    columns += column_bytes;
    if (++block < blocks) return false;
    block = 0;
    rows -= blocks * row_bytes;
    columns -= blocks * column_bytes;
    if (second) rows += group_bytes;
    columns += second ? -half_bytes : half_bytes;
    second = !second;
    return true;
  }
};

using HalvesTotals = hn::Vec<Floats>[kAmxRows];

/// Adds the sums of a block, scaled by its scales of 16 columns and its steps of 16 rows, to their totals.
HWY_INLINE void scale_halves(const float* sums, const std::byte* scales, const std::byte* row_steps,
                             HalvesTotals& totals) {
  const Floats d;
  const auto scale = hn::LoadU(d, reinterpret_cast<const float*>(scales));
  const auto* steps = reinterpret_cast<const float*>(row_steps);
  unrolled<kAmxRows>([&](auto r) CTXGEN_UNROLLED {
    totals[r] =
        hn::MulAdd(hn::Load(d, sums + r * kLanes), hn::Mul(scale, hn::Set(d, steps[r])), totals[r]);
  });
}

/// Totals of group i / 2 of rows, and half i % 2 of the columns, before the panel.
HWY_INLINE void begin_totals(const HalvesPanel& panel, std::int64_t i, HalvesTotals& totals) {
  const Floats d;
  const float* from = panel.results.rest + i / 2 * kAmxRows * kLowBitColumns +
                      i % 2 * static_cast<std::int64_t>(kLanes);
  if (panel.first)
    unrolled<kAmxRows>([&](auto r) CTXGEN_UNROLLED { totals[r] = hn::Zero(d); });
  else
    unrolled<kAmxRows>([&](auto r)
                           CTXGEN_UNROLLED { totals[r] = hn::Load(d, from + r * kLowBitColumns); });
}

/// What the same are after it.
HWY_INLINE void end_totals(const HalvesPanel& panel, std::int64_t i, const HalvesTotals& totals) {
  const Floats d;
  const HalvesResults& results = panel.results;
  const std::int64_t row = i / 2 * kAmxRows, column = i % 2 * static_cast<std::int64_t>(kLanes);
  if (panel.last && i / 2 < results.whole) {
    const bool bias = results.bias != nullptr;
    const auto add = bias ? hn::LoadU(d, results.bias + column) : hn::Zero(d);
    float* to = results.out + row * results.n + column;
    unrolled<kAmxRows>([&](auto r) CTXGEN_UNROLLED {
      hn::StoreU(bias ? hn::Add(totals[r], add) : totals[r], d, to);
      to += results.n;
    });
  } else {
    float* to = results.rest + row * kLowBitColumns + column;
    unrolled<kAmxRows>([&](auto r)
                           CTXGEN_UNROLLED { hn::Store(totals[r], d, to + r * kLowBitColumns); });
  }
}

/// Adds the products of groups of rows by a panel to their totals. Sums of 16 rows by 16 columns of a block are stored while the next
/// ones are multiplied, and scaled two later: tiles take long to be ready, and what they have just written is slow to read.
HWY_NOINLINE void add_panel(const LowBitMatrix& matrix, const HalvesRows& layout,
                            const HalvesPanel& panel) {
  constexpr std::size_t kTiles = 4;
  constexpr std::int64_t kLater = 3;
  HWY_ALIGN float sums[kTiles][kAmxRows * kLanes];
  const std::int64_t scale_bytes = LowBitLayout(matrix).block_bytes;
  constexpr std::int64_t kVector = kAmxRows * 4;
  const std::int64_t count = panel.groups * 2 * panel.blocks;
  HalvesCursor at{panel.rows, panel.columns}, done{panel.steps, panel.scales};
  const std::byte* next = panel.next;
  std::int64_t turn = 0;
  HalvesTotals totals;
  begin_totals(panel, turn, totals);
  for (std::int64_t from = 0; from < count + kLater; from += kTiles)
    unrolled<kTiles>([&](auto j) CTXGEN_UNROLLED {
      constexpr std::size_t kScaled = (j + kTiles - kLater) % kTiles;
      const std::int64_t i = from + static_cast<std::int64_t>(j);
      if (i < count) {
        ask_for(next, divide_up(panel.lines_of_turn, panel.blocks));
        sum_halves<j>(layout, at.rows, at.columns);
        at.next(panel.blocks, layout.block_bytes, layout.block_bytes, kHalfPanel,
                layout.group_bytes);
      }
      if (i >= 1 && i <= count) store_halves<(j + kTiles - 1) % kTiles>(sums);
      if (i >= kLater && i < count + kLater) {
        scale_halves(sums[kScaled], done.columns, done.rows, totals);
        if (done.next(panel.blocks, kVector, scale_bytes, kVector, layout.group_bytes)) {
          end_totals(panel, turn, totals);
          if (++turn < panel.groups * 2) begin_totals(panel, turn, totals);
        }
      }
    });
}

/// The same for whole panels of blocks of 32.
template <std::size_t kBits>
HWY_NOINLINE void add_whole_panel(const HalvesRows& layout, const HalvesPanel& panel) {
  constexpr std::size_t kTiles = 4, kLater = 3;
  constexpr std::int64_t kBlocks = kHalvesPanel / 32;
  constexpr std::int64_t kBlock = 32 * kAmxRows * 2;        // bytes of rows, and of columns
  constexpr std::int64_t kScales = (kBits + 1) * kWordRow;  // from a block to the next one
  HWY_ALIGN float sums[kTiles][kAmxRows * kLanes];
  const std::byte* next = panel.next;
  HalvesTotals totals;
  const auto turn = [&](std::int64_t i, auto begins, auto ends) CTXGEN_UNROLLED {
    const std::int64_t group = i / 2 * layout.group_bytes,
                       before = (i - 1) / 2 * layout.group_bytes;
    const std::byte *rows = panel.rows + group, *columns = panel.columns + i % 2 * kHalfPanel;
    const std::byte *steps = panel.steps + before, *scales = panel.scales + (i - 1) % 2 * kAmxBytes;
    unrolled<static_cast<std::size_t>(kBlocks)>([&](auto j) CTXGEN_UNROLLED {
      if constexpr (begins) {
        constexpr std::int64_t kBefore = j;
        ask_for(next, panel.lines_of_turn * (kBefore + 1) / kBlocks -
                          panel.lines_of_turn * kBefore / kBlocks);
        sum_halves<j % kTiles, j * kBlock>(rows, columns);
      }
      if constexpr (j == 0 ? ends : begins) store_halves<(j + kTiles - 1) % kTiles>(sums);
      if constexpr (j < kLater ? ends : begins) {
        constexpr std::size_t kScaled = (j + kBlocks - kLater) % kBlocks;
        scale_halves(sums[kScaled % kTiles], scales + kScaled * kScales,
                     steps + kScaled * kAmxRows * 4, totals);
      }
      if constexpr (j == kLater - 1) {
        if constexpr (ends) end_totals(panel, i - 1, totals);
        if constexpr (begins) {
          begin_totals(panel, i, totals);
          steps = panel.steps + group;
          scales = panel.scales + i % 2 * kAmxBytes;
        }
      }
    });
  };
  const std::true_type yes;
  const std::false_type no;
  turn(0, yes, no);
  for (std::int64_t i = 1; i < panel.groups * 2; ++i) turn(i, yes, yes);
  turn(panel.groups * 2, no, yes);
}

/// A tile times groups of prepared rows. What it leaves in results.rest has no bias.
template <std::size_t kBits>
HWY_NOINLINE void multiply_in_halves(const LowBitMatrix& matrix, const HalvesRows& layout,
                                     const AmxShapes& shapes, const std::byte* rows,
                                     std::int64_t groups, const std::byte* tile,
                                     const HalvesResults& results) {
  HWY_ALIGN std::byte columns[2 * kHalfPanel];
  const LowBitLayout packed(matrix);
  const std::int64_t at_once = kHalvesPanel / matrix.block;
  load_amx_shapes(shapes);
  for (std::int64_t first = 0; first < packed.blocks; first += at_once) {
    const std::int64_t end = std::min(first + at_once, packed.blocks), blocks = end - first;
    unpack_halves<kBits>(matrix, tile, first, end, columns);
    const std::int64_t lines = blocks * packed.block_bytes / kLineBytes;
    const bool last = end == packed.blocks;
    const HalvesPanel panel{.columns = columns,
                            .scales = tile + first * packed.block_bytes +
                                      packed.block_words * static_cast<std::int64_t>(kWordRow),
                            .rows = rows + first * layout.block_bytes,
                            .steps = rows + layout.steps_offset + first * kAmxRows * 4,
                            .blocks = blocks,
                            .groups = groups,
                            .first = first == 0,
                            .last = last,
                            .results = results,
                            .next = tile + (last ? packed.tile_bytes : end * packed.block_bytes),
                            .lines_of_turn = divide_up(lines, groups * 2)};
    if (matrix.block == 32 && blocks == at_once)
      add_whole_panel<kBits>(layout, panel);
    else
      add_panel(matrix, layout, panel);
  }
  release_amx();
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
