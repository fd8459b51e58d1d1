#include <algorithm>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/instruction_set.h"
#include "ctxgen/kernels/low_bit.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "low_bit/low_bit_product.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "dot-inl.h"
#include "low_bit/low_bit_amx-inl.h"
#include "low_bit/low_bit_digits-inl.h"
#include "low_bit/low_bit_float-inl.h"
#include "low_bit/low_bit_halves-inl.h"
#include "low_bit/low_bit_int8-inl.h"
#include "low_bit/low_bit_panels-inl.h"
#include "prefetch.h"
#include "stretches.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr std::int64_t kRowsOfTask = 128;
constexpr std::int64_t kPanel = 256;  // rows of the matrix that are unpacked at a time: 32 KiB

/// Rows that are multiplied at once by blocks as they are, and by panels.
constexpr std::size_t kMostRows = kLanes >= 16 ? 8 : kLanes >= 8 ? 4 : 2;
constexpr std::size_t kMostPanelRows = kLanes >= 16 ? 12 : kLanes >= 8 ? 6 : 4;

/// Vectors of columns at once: all registers for one row, two of each of several rows.
template <std::size_t kRows>
constexpr std::size_t kVectorsOf = kRows == 1 ? std::min<std::size_t>(kTileVectors, 4) : 2;

/// How one row reads the matrix. Measured (docs/onednn.md, "Low-bit weights"): Intel's cores reach more of the memory from
/// two tiles, for which AVX-512 has the registers, and from nearby; AMD's were measured with one tile and far ahead.
struct RowReading {
  std::int64_t tiles = 1;  // at once
  std::size_t ahead = 8192;
};

HWY_INLINE RowReading row_reading(std::int64_t tiles) {
  constexpr std::int64_t kLeastTiles = 16;  // fewer are parts for the workers
  if (!has_intel_cores()) return {};
  return {kLanes >= 16 && tiles >= kLeastTiles ? 2 : 1, 2048};
}

/// Adds the bias to the sums of `rows` rows of a tile and writes them.
HWY_INLINE void write_tile(const LowBitProduct& p, std::int64_t row, std::size_t rows,
                           std::int64_t tile, const float* sums) {
  const Floats d;
  const std::int64_t first = tile * kLowBitColumns;
  const auto columns = static_cast<std::size_t>(std::min(kLowBitColumns, p.matrix.n - first));
  for (std::size_t r = 0; r < rows; ++r, sums += kLowBitColumns) {
    float* to = p.out + (row + static_cast<std::int64_t>(r)) * p.matrix.n + first;
    for (std::size_t c = 0; c < columns; c += kLanes) {
      const std::size_t left = columns - c;
      auto value = hn::LoadU(d, sums + c);
      if (p.bias != nullptr) value = hn::Add(value, hn::LoadN(d, p.bias + first + c, left));
      if (left >= kLanes)
        hn::StoreU(value, d, to + c);
      else
        hn::StoreN(value, d, to + c, left);
    }
  }
}

template <class Dot, std::size_t kBits>
struct Int8 {
  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void columns(auto&&... args) {
    int8_columns<Dot, kBits, kRows, kVectors>(args...);
  }
};

template <std::size_t kBits>
struct Float {
  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void columns(auto&&... args) {
    float_columns<kBits, kRows, kVectors>(args...);
  }
};

/// `kRows` rows from `row` on of a tile.
template <class Kernel, std::size_t kRows>
HWY_NOINLINE void multiply_tile(const LowBitProduct& p, const RowLayout& layout, std::int64_t row,
                                std::int64_t tile) {
  HWY_ALIGN float sums[kRows * kLowBitColumns];
  TilesAtOnce from{p.packed + tile * LowBitLayout(p.matrix).tile_bytes, 0, row_reading(1).ahead};
  for (; from.column < kLowBitColumns; from.column += kVectorsOf<kRows> * kLanes)
    Kernel::template columns<kRows, kVectorsOf<kRows>>(
        p.matrix, layout, p.scratch + row * layout.row_bytes, from, sums);
  write_tile(p, row, kRows, tile, sums);
}

/// Row 0 of two tiles.
template <class Kernel>
HWY_NOINLINE void multiply_two_tiles(const LowBitProduct& p, const RowLayout& layout,
                                     std::int64_t tile) {
  HWY_ALIGN float sums[2 * kLowBitColumns];
  const std::byte* first = p.packed + tile * LowBitLayout(p.matrix).tile_bytes;
  Kernel::template columns<1, 2 * kTileVectors>(p.matrix, layout, p.scratch,
                                                TilesAtOnce{first, 0, row_reading(2).ahead}, sums);
  write_tile(p, 0, 1, tile, sums);
  write_tile(p, 0, 1, tile + 1, sums + kLowBitColumns);
}

/// Rows [row, end) of a tile, as many at once as there are.
template <class Kernel>
HWY_INLINE void multiply_rows(const LowBitProduct& p, const RowLayout& layout, std::int64_t row,
                              std::int64_t end, std::int64_t tile) {
  for_row_blocks<kMostRows>(row, end, [&]<std::size_t kRows>(std::int64_t at) HWY_ATTR {
    multiply_tile<Kernel, kRows>(p, layout, at, tile);
  });
}

/// Calls task(0) to task(count - 1), the whole product; `workers` help where they are worth it: starting them costs as
/// much as half a million products.
template <class Task>
HWY_INLINE void for_tasks(const LowBitProduct& p, Workers& workers, std::int64_t count,
                          const Task& task) {
  constexpr std::int64_t kWorthThreads = 512 * 1024;
  if (p.rows >= kWorthThreads / p.matrix.k / p.matrix.n) return workers.parallel_for(count, task);
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

/// Calls task(tile, row, end of rows) for all tiles and parts of the rows.
template <class Task>
HWY_INLINE void for_parts(const LowBitProduct& p, Workers& workers, const Task& task) {
  const std::int64_t tiles = LowBitLayout(p.matrix).tiles;
  const std::int64_t parts = (p.rows + kRowsOfTask - 1) / kRowsOfTask;
  for_tasks(p, workers, tiles * parts, [&](std::int64_t i) HWY_ATTR {
    const std::int64_t row = i % parts * kRowsOfTask;
    task(i / parts, row, std::min(row + kRowsOfTask, p.rows));
  });
}

/// Calls prepare(row) for `rows` rows; `workers` help where they are worth it.
template <class Prepare>
HWY_INLINE void for_rows(const LowBitProduct& p, std::int64_t rows, Workers& workers,
                         const Prepare& prepare) {
  constexpr std::int64_t kWorthThreads = 64 * 1024;
  if (rows > 1 && p.matrix.k >= kWorthThreads / rows) return workers.parallel_for(rows, prepare);
  for (std::int64_t row = 0; row < rows; ++row) prepare(row);
}

/// kZeros: with what zero points are multiplied by.
template <bool kZeros>
HWY_INLINE void prepare_one(const LowBitProduct& p, const RowLayout& layout, std::int64_t row) {
  prepare_int8_row<kZeros>(p.matrix, layout, p.a + row * p.matrix.k,
                           p.scratch + row * layout.row_bytes);
}

template <bool kZeros>
HWY_INLINE void prepare_int8_rows(const LowBitProduct& p, const RowLayout& layout,
                                  Workers& workers) {
  for_rows(p, p.rows, workers,
           [&](std::int64_t row) HWY_ATTR { prepare_one<kZeros>(p, layout, row); });
}

/// Whether each worker takes rows of its own. All of them read the whole matrix then, and unpack it: it has to fit into caches,
/// and rows have to be many.
HWY_INLINE bool has_lanes(const LowBitProduct& p) {
  constexpr std::int64_t kLeastRows = 24, kMostBytes = std::int64_t{1} << 20;
  const LowBitLayout layout(p.matrix);
  return p.lanes > 1 && p.rows / p.lanes >= kLeastRows &&
         layout.tile_bytes <= kMostBytes / layout.tiles;
}

/// Prepares all rows and calls multiply(tile, row, end of rows) for all tiles and parts of the rows.
template <class Multiply>
HWY_INLINE void multiply_int8_parts(const LowBitProduct& p, const RowLayout& layout,
                                    Workers& workers, const Multiply& multiply) {
  if (!has_lanes(p)) {
    prepare_int8_rows<true>(p, layout, workers);
    return for_parts(p, workers, multiply);
  }
  const std::int64_t tiles = LowBitLayout(p.matrix).tiles, each = divide_up(p.rows, p.lanes);
  for_tasks(p, workers, p.lanes, [&](std::int64_t lane) HWY_ATTR {
    const std::int64_t last = std::min((lane + 1) * each, p.rows);
    for (std::int64_t row = lane * each; row < last; row += kRowsOfTask) {
      const std::int64_t end = std::min(row + kRowsOfTask, last);
      for (std::int64_t r = row; r < end; ++r) prepare_one<true>(p, layout, r);
      for (std::int64_t tile = 0; tile < tiles; ++tile) multiply(tile, row, end);
    }
  });
}

#if CTXGEN_LOW_BIT_AMX
/// Few rows leave tiles empty, and cost what unpacking takes.
HWY_INLINE bool amx_pays(const LowBitProduct& p) {
  constexpr std::int64_t kLeastRows = 12;
  return p.rows >= kLeastRows && fits_amx(p.matrix) && may_use_tiles();
}

template <std::size_t kBits>
HWY_NOINLINE void multiply_amx(const LowBitProduct& p, Workers& workers) {
  static_assert(kRowsOfTask % kAmxRows == 0);
  const RowLayout layout(p.matrix, p.compute, p.matrix.block);
  prepare_int8_rows<false>(p, layout, workers);
  for_parts(p, workers, [&](std::int64_t tile, std::int64_t row, std::int64_t end) HWY_ATTR {
    HWY_ALIGN float totals[kRowsOfTask * kLowBitColumns];
    multiply_in_amx<kBits>(p.matrix, layout, p.scratch + row * layout.row_bytes, end - row,
                           p.packed + tile * LowBitLayout(p.matrix).tile_bytes, totals);
    write_tile(p, row, static_cast<std::size_t>(end - row), tile, totals);
  });
}

/// The same in bfloat16.
template <std::size_t kBits>
HWY_NOINLINE void multiply_halves(const LowBitProduct& p, Workers& workers) {
  static_assert(kRowsOfTask % kAmxRows == 0);
  const HalvesRows layout(p.matrix);
  for_rows(p, divide_up(p.rows, kAmxRows) * kAmxRows, workers, [&](std::int64_t row) HWY_ATTR {
    prepare_halves_row(p.matrix, layout, row < p.rows ? p.a + row * p.matrix.k : nullptr, row,
                       p.scratch);
  });
  const AmxShapes shapes = amx_shapes(kAmxRows, kAmxRows, layout.depth * 2);
  for_parts(p, workers, [&](std::int64_t tile, std::int64_t row, std::int64_t end) HWY_ATTR {
    HWY_ALIGN float rest[kRowsOfTask * kLowBitColumns];
    const std::int64_t column = tile * kLowBitColumns, count = end - row;
    const std::int64_t whole = column + kLowBitColumns <= p.matrix.n ? count / kAmxRows : 0;
    multiply_in_halves<kBits>(
        p.matrix, layout, shapes, p.scratch + row / kAmxRows * layout.group_bytes,
        divide_up(count, kAmxRows), p.packed + tile * LowBitLayout(p.matrix).tile_bytes,
        {.out = p.out + row * p.matrix.n + column,
         .n = p.matrix.n,
         .bias = p.bias == nullptr ? nullptr : p.bias + column,
         .whole = whole,
         .rest = rest});
    const std::int64_t done = whole * kAmxRows;
    write_tile(p, row + done, static_cast<std::size_t>(count - done), tile,
               rest + done * kLowBitColumns);
  });
}
#endif

/// One prepared row times all tiles.
template <class Kernel>
HWY_INLINE void multiply_one_row(const LowBitProduct& p, const RowLayout& layout,
                                 Workers& workers) {
  const std::int64_t tiles = LowBitLayout(p.matrix).tiles;
  if constexpr (kLanes >= 16)
    if (row_reading(tiles).tiles == 2)
      return for_tasks(p, workers, (tiles + 1) / 2, [&](std::int64_t i) HWY_ATTR {
        if (2 * i + 1 < tiles)
          multiply_two_tiles<Kernel>(p, layout, 2 * i);
        else
          multiply_tile<Kernel, 1>(p, layout, 0, 2 * i);
      });
  for_tasks(p, workers, tiles,
            [&](std::int64_t tile) HWY_ATTR { multiply_tile<Kernel, 1>(p, layout, 0, tile); });
}

/// Prepared rows times all tiles.
template <class Kernel>
HWY_INLINE void multiply_prepared(const LowBitProduct& p, const RowLayout& layout,
                                  Workers& workers) {
  if (p.rows == 1) return multiply_one_row<Kernel>(p, layout, workers);
  for_parts(p, workers, [&](std::int64_t tile, std::int64_t row, std::int64_t end) HWY_ATTR {
    multiply_rows<Kernel>(p, layout, row, end, tile);
  });
}

#if CTXGEN_HAVE_VNNI
/// From so many rows on, which share what unpacking takes, panels of bytes are faster (docs/onednn.md, "Low-bit weights").
constexpr std::int64_t kRowsOfBytePanels = 16;

template <std::size_t kBits>
HWY_NOINLINE void multiply_by_byte_panels(const LowBitProduct& p, Workers& workers) {
  const RowLayout layout(p.matrix, p.compute, p.matrix.block);
  multiply_int8_parts(
      p, layout, workers, [&](std::int64_t tile, std::int64_t row, std::int64_t end) HWY_ATTR {
        HWY_ALIGN float totals[kRowsOfTask * kLowBitColumns];
        multiply_byte_panels<kBits>(p.matrix, layout, p.scratch + row * layout.row_bytes, end - row,
                                    p.packed + tile * LowBitLayout(p.matrix).tile_bytes, totals);
        write_tile(p, row, static_cast<std::size_t>(end - row), tile, totals);
      });
}
#endif

template <class Dot, std::size_t kBits>
HWY_NOINLINE void multiply_int8(const LowBitProduct& p, Workers& workers) {
  const RowLayout layout(p.matrix, p.compute, std::min(p.matrix.block, Dot::kMostTerms));
  if (has_lanes(p))
    return multiply_int8_parts(p, layout, workers,
                               [&](std::int64_t tile, std::int64_t row, std::int64_t end) HWY_ATTR {
                                 multiply_rows<Int8<Dot, kBits>>(p, layout, row, end, tile);
                               });
  prepare_int8_rows<true>(p, layout, workers);
  multiply_prepared<Int8<Dot, kBits>>(p, layout, workers);
}

/// A tile times rows [row, end) by panels.
template <std::size_t kBits>
HWY_NOINLINE void multiply_by_panels(const LowBitProduct& p, std::int64_t tile, std::int64_t row,
                                     std::int64_t end) {
  HWY_ALIGN float panel[kPanel * kLowBitColumns];
  HWY_ALIGN float sums[kRowsOfTask * kLowBitColumns] = {};
  const LowBitLayout packed(p.matrix);
  const std::byte* from = p.packed + tile * packed.tile_bytes;
  const std::int64_t blocks = kPanel / p.matrix.block;
  for (std::int64_t block = 0; block < packed.blocks; block += blocks) {
    unpack_panel<kBits>(p.matrix, from, block, std::min(block + blocks, packed.blocks), panel);
    const std::int64_t k = block * p.matrix.block, count = std::min(kPanel, p.matrix.k - k);
    constexpr std::size_t kVectors = 2;
    for (std::size_t column = 0; column < kLowBitColumns; column += kVectors * kLanes) {
      std::int64_t r = row;
      const auto take = [&]<std::size_t kRows>() HWY_ATTR {
        for (; end - r >= static_cast<std::int64_t>(kRows); r += kRows)
          multiply_panel<kRows, kVectors>(count, p.a + r * p.matrix.k + k, p.matrix.k,
                                          panel + column,
                                          sums + (r - row) * kLowBitColumns + column);
      };
      take.template operator()<kMostPanelRows>();
      take.template operator()<kMostPanelRows / 3 + kMostPanelRows % 3>();
      take.template operator()<1>();
    }
  }
  write_tile(p, row, static_cast<std::size_t>(end - row), tile, sums);
}

#if CTXGEN_HAVE_VNNI
/// For one row.
template <std::size_t kBits>
struct Digits {
  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void columns(const LowBitMatrix& matrix, const RowLayout& layout,
                                 const std::byte* prepared, TilesAtOnce from, float* sums) {
    static_assert(kRows == 1);
    constexpr std::size_t kAtOnce = kLanes >= 16 ? kVectors : 2;  // by the number of registers
    for (std::size_t v = 0; v < kVectors; v += kAtOnce, from.column += kAtOnce * kLanes)
      digit_columns<kBits, kAtOnce>(matrix, layout, prepared, from, sums);
  }
};

/// One row by its digits, if it has them.
template <std::size_t kBits>
HWY_NOINLINE bool multiply_digits(const LowBitProduct& p, Workers& workers) {
  const RowLayout layout(p.matrix, LowBitCompute::kInt8, p.matrix.block);
  if (!prepare_digits(p.matrix, layout, p.a, p.scratch)) return false;
  multiply_one_row<Digits<kBits>>(p, layout, workers);
  return true;
}
#endif

template <std::size_t kBits>
HWY_NOINLINE void multiply_float(const LowBitProduct& p, bool vnni, Workers& workers) {
#if CTXGEN_HAVE_VNNI
  if (p.run_scratch && has_digits(p.matrix, p.rows, vnni) && multiply_digits<kBits>(p, workers))
    return;
#else
  (void)vnni;
#endif
  if (p.rows >= kRowsOfPanels)
    return for_parts(p, workers,
                     [&](std::int64_t tile, std::int64_t row, std::int64_t end)
                         HWY_ATTR { multiply_by_panels<kBits>(p, tile, row, end); });
  const RowLayout layout(p.matrix, p.compute, p.matrix.block);
  for_rows(p, p.rows, workers, [&](std::int64_t row) HWY_ATTR {
    prepare_float_row<kBits>(p.matrix, layout, p.a + row * p.matrix.k,
                             p.scratch + row * layout.row_bytes);
  });
  multiply_prepared<Float<kBits>>(p, layout, workers);
}

template <std::size_t kBits>
HWY_INLINE void multiply_bits(const LowBitProduct& p, bool vnni, Workers& workers) {
  if (p.compute == LowBitCompute::kFloat) return multiply_float<kBits>(p, vnni, workers);
#if CTXGEN_LOW_BIT_AMX
  if (takes_halves(p.matrix, p.compute, p.rows)) return multiply_halves<kBits>(p, workers);
  if (amx_pays(p)) return multiply_amx<kBits>(p, workers);
#endif
#if CTXGEN_HAVE_VNNI
  if constexpr (kBits < 8)
    if (vnni && p.rows >= kRowsOfBytePanels) return multiply_by_byte_panels<kBits>(p, workers);
  if (vnni) return multiply_int8<VnniDot, kBits>(p, workers);
#else
  (void)vnni;
#endif
  if constexpr (kBits <= 4)
    multiply_int8<NarrowDot, kBits>(p, workers);
  else
    multiply_int8<WideDot, kBits>(p, workers);
}

template <std::size_t kBits>
HWY_INLINE void unpack_all(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t first,
                           std::int64_t last, float* to) {
  const LowBitLayout layout(matrix);
  for (; first < last; ++first, to += panel_rows(matrix) * kLowBitColumns)
    unpack_panel<kBits>(matrix, packed + first * layout.tile_bytes, 0, layout.blocks, to);
}

HWY_NOINLINE void unpack(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t first,
                         std::int64_t last, float* to) {
  switch (matrix.bits) {
    case 2: return unpack_all<2>(matrix, packed, first, last, to);
    case 4: return unpack_all<4>(matrix, packed, first, last, to);
    default: return unpack_all<8>(matrix, packed, first, last, to);
  }
}

HWY_NOINLINE void multiply(const LowBitProduct& p, bool vnni, Workers& workers) {
  switch (p.matrix.bits) {
    case 2: return multiply_bits<2>(p, vnni, workers);
    case 4: return multiply_bits<4>(p, vnni, workers);
    default: return multiply_bits<8>(p, vnni, workers);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

std::optional<std::uint64_t> scratch_bytes(const LowBitMatrix& matrix, LowBitCompute compute,
                                           std::int64_t rows) {
  if (compute == LowBitCompute::kFloat && rows >= kRowsOfPanels) return 0;
  const RowLayout layout(matrix, compute, std::min(matrix.block, kLeastUnit));
  const auto bytes =
      checked_mul(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(layout.row_bytes));
  return bytes && *bytes <= INT64_MAX ? bytes : std::nullopt;
}

std::optional<std::uint64_t> run_scratch_bytes(const LowBitMatrix& matrix, LowBitCompute compute,
                                               std::int64_t rows) {
  const auto least = scratch_bytes(matrix, compute, rows);
  if (least && compute == LowBitCompute::kFloat && has_digits(matrix, rows, may_use_vnni())) {
    const RowLayout digits(matrix, LowBitCompute::kInt8, matrix.block);
    return std::max(*least, kDigits * static_cast<std::uint64_t>(digits.row_bytes));
  }
  if (!least || !takes_halves(matrix, compute, rows)) return least;
  const auto bytes = checked_mul(static_cast<std::uint64_t>(divide_up(rows, kRowsOfGroup)),
                                 static_cast<std::uint64_t>(HalvesRows(matrix).group_bytes));
  return bytes && *bytes <= INT64_MAX ? std::optional(std::max(*least, *bytes)) : std::nullopt;
}

void unpack_tiles(const LowBitMatrix& matrix, const std::byte* packed, std::int64_t first,
                  std::int64_t last, float* to) {
  CTXGEN_DISPATCH(unpack(matrix, packed, first, last, to));
}

void low_bit_product(const LowBitProduct& product, Workers& workers) {
  if (product.rows <= 0) return;
  const bool vnni = may_use_vnni();
  CTXGEN_DISPATCH(multiply(product, vnni, workers));
}

}  // namespace ctxgen::kernels
#endif
