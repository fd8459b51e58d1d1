// Rows of 8-bit integers times packed low-bit blocks in the tiles of AMX: many rows. Compiled once per instruction
// set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_LOW_BIT_AMX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_LOW_BIT_AMX_INL_H
#undef CTXGEN_KERNELS_LOW_BIT_AMX_INL_H
#else
#define CTXGEN_KERNELS_LOW_BIT_AMX_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "ctxgen/kernels/amx.h"

#include "low_bit/low_bit_int8-inl.h"
#include "prefetch.h"

#undef CTXGEN_LOW_BIT_AMX
#if CTXGEN_HAVE_AMX && HWY_TARGET == HWY_AVX3
#define CTXGEN_LOW_BIT_AMX 1

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// Elements of columns that are unpacked at a time: 16 KiB.
constexpr std::int64_t kAmxPanel = 512;

/// Whether elements less their zero points are bytes.
HWY_INLINE bool fits_amx(const LowBitMatrix& matrix) {
  return matrix.zeros == ZeroPoints::kMiddle ||
         (matrix.zeros == ZeroPoints::kInteger && matrix.bits <= 4);
}

/// The zero points of a vector of columns, each in four bytes.
HWY_INLINE hn::Vec<Bytes> amx_zeros(const LowBitMatrix& matrix, const std::byte* zeros,
                                    std::size_t v) {
  if (matrix.zeros == ZeroPoints::kMiddle)
    return hn::Set(Bytes(), static_cast<std::uint8_t>(1 << (matrix.bits - 1)));
  const hn::Rebind<std::uint8_t, Words> bytes;
  const auto one =
      hn::LoadU(bytes, reinterpret_cast<const std::uint8_t*>(zeros) + v * hn::Lanes(Words()));
  return hn::BitCast(Bytes(), hn::Mul(hn::PromoteTo(Words(), one), hn::Set(Words(), 0x01010101U)));
}

/// Blocks [first, last) of a tile: four elements of each column, less their zero points, row by row.
template <std::size_t kBits>
HWY_NOINLINE void unpack_bytes(const LowBitMatrix& matrix, const std::byte* tile,
                               std::int64_t first, std::int64_t last, std::byte* to) {
  constexpr std::size_t kParts = 8 / kBits;
  const LowBitLayout layout(matrix);
  for (std::int64_t block = first; block < last; ++block) {
    const std::byte* words = tile + block * layout.block_bytes;
    const std::byte* zeros = tile + layout.zeros_offset + block * kLowBitColumns;
    const hn::Vec<Bytes> less[kTileVectors] = {amx_zeros(matrix, zeros, 0),
                                               amx_zeros(matrix, zeros, 1)};
    for (std::int64_t j = 0; j < layout.block_words; ++j, words += kWordRow)
      for (std::size_t p = 0; p < kParts; ++p, to += kWordRow)
        for (std::size_t v = 0; v < kTileVectors; ++v) {
          const auto word =
              hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(words) + v * kLanes);
          hn::StoreU(hn::Sub(hn::BitCast(Bytes(), bytes_of<kBits>(word, p)), less[v]), Bytes(),
                     reinterpret_cast<std::uint8_t*>(to) + v * kLanes * 4);
        }
  }
}

/// Rows that are multiplied at once.
struct AmxRows {
  const std::byte* prepared;
  std::int64_t count;  // up to kAmxRows
  float* totals;       // [kAmxRows, kLowBitColumns]
};

/// 16 columns of some blocks of a tile.
struct AmxColumns {
  const std::byte* tile;
  const std::byte* panel;  // their bytes: those of block `first`
  std::int64_t first, last;
  std::size_t column;           // 0 or 16
  const std::byte* next;        // asked for meanwhile, which may be outside of any object
  std::int64_t lines_of_block;  // so many cache lines with each block
};

/// Tile 0, or 1 where `odd`, = rows at `a` by 16 columns of the bytes of a block, in one or more depths.
HWY_INLINE void sum_amx_block(const std::byte* a, std::int64_t stride, std::int64_t block,
                              const std::byte* bytes, bool odd) {
  constexpr auto kRow = static_cast<std::int64_t>(kWordRow);
  if (odd)
    CTXGEN_AMX_ZERO(1);
  else
    CTXGEN_AMX_ZERO(0);
  for (std::int64_t k = 0; k < block; k += kAmxBytes, bytes += kAmxBytes / 4 * kRow) {
    if (odd) {
      CTXGEN_AMX_LOAD(5, a + k, stride);
      CTXGEN_AMX_LOAD(7, bytes, kRow);
      CTXGEN_AMX_ADD(tdpbssd, 1, 5, 7);
    } else {
      CTXGEN_AMX_LOAD(4, a + k, stride);
      CTXGEN_AMX_LOAD(6, bytes, kRow);
      CTXGEN_AMX_ADD(tdpbssd, 0, 4, 6);
    }
  }
}

HWY_INLINE void store_amx_sums(bool odd, std::int32_t* sums) {
  if (odd)
    CTXGEN_AMX_STORE(1, sums, kAmxBytes);
  else
    CTXGEN_AMX_STORE(0, sums, kAmxBytes);
}

/// Adds sums, scaled, to their totals. `steps`: of the rows in this block, `stride` bytes from one to the next.
HWY_INLINE void scale_amx_sums(const std::int32_t* sums, hn::Vec<Floats> scale,
                               const std::byte* steps, std::int64_t stride,
                               hn::Vec<Floats> (&totals)[kAmxRows]) {
  const Floats d;
  unrolled<kAmxRows>([&](auto r) CTXGEN_UNROLLED {
    const auto step = hn::BitCast(d, spread_four(steps + static_cast<std::int64_t>(r) * stride));
    const auto sum = hn::ConvertTo(d, hn::Load(Ints(), sums + r * kLanes));
    totals[r] = hn::MulAdd(sum, hn::Mul(scale, step), totals[r]);
  });
}

/// Adds the products of rows by 16 columns, at block 0 to nothing. Sums of a block are stored while the next one is multiplied,
/// and scaled one later: tiles take long to be ready, and what they have just written is slow to read.
template <bool kWhole>
HWY_NOINLINE void add_amx_columns(const LowBitMatrix& matrix, const RowLayout& layout,
                                  const AmxColumns& by, const AmxRows& rows) {
  constexpr std::int64_t kSlots = 4, kLater = 2;
  const Floats d;
  HWY_ALIGN std::int32_t sums[kSlots][kAmxRows * kLanes];
  HWY_ALIGN std::byte some_steps[kAmxRows * 4] = {};
  if constexpr (!kWhole) std::memset(sums, 0, sizeof sums);
  const LowBitLayout packed(matrix);
  hn::Vec<Floats> totals[kAmxRows];
  float* to = rows.totals + by.column;
  unrolled<kAmxRows>([&](auto r) CTXGEN_UNROLLED {
    totals[r] = by.first == 0 ? hn::Zero(d) : hn::Load(d, to + r * kLowBitColumns);
  });
  const auto scale = [&](std::int64_t block) CTXGEN_UNROLLED {
    const std::byte* scales = by.tile + block * packed.block_bytes +
                              packed.block_words * static_cast<std::int64_t>(kWordRow);
    const std::byte* steps = rows.prepared + layout.scales_offset + block * 4;
    if constexpr (!kWhole)
      for (std::int64_t r = 0; r < rows.count; ++r)
        std::memcpy(some_steps + r * 4, steps + r * layout.row_bytes, 4);
    scale_amx_sums(sums[block % kSlots],
                   hn::LoadU(d, reinterpret_cast<const float*>(scales) + by.column),
                   kWhole ? steps : some_steps, kWhole ? layout.row_bytes : 4, totals);
  };
  const std::byte* bytes = by.panel + by.column * 4;
  const std::byte* next = by.next;
  for (std::int64_t block = by.first; block < by.last + kLater; ++block) {
    if (block < by.last) {
      for (std::int64_t i = 0; i < by.lines_of_block; ++i, next += kLineBytes)
        prefetch_second(next);
      sum_amx_block(rows.prepared + block * matrix.block, layout.row_bytes, matrix.block, bytes,
                    block % 2 != 0);
      bytes += matrix.block * kLowBitColumns;
    }
    if (const std::int64_t done = block - 1; done >= by.first && done < by.last)
      store_amx_sums(done % 2 != 0, sums[done % kSlots]);
    if (block >= by.first + kLater) scale(block - kLater);
  }
  unrolled<kAmxRows>([&](auto r)
                         CTXGEN_UNROLLED { hn::Store(totals[r], d, to + r * kLowBitColumns); });
}

/// What is unpacked after the blocks up to `last` of a tile. It is asked for while these are multiplied by `rows` rows.
struct AmxAhead {
  AmxAhead(const LowBitLayout& layout, const std::byte* tile, std::int64_t first, std::int64_t last,
           std::int64_t rows)
      : next(last < layout.blocks ? tile + last * layout.block_bytes : tile + layout.tile_bytes) {
    const std::int64_t lines = (last - first) * layout.block_bytes / kLineBytes;
    const std::int64_t turns = (rows + kAmxRows - 1) / kAmxRows * 2 * (last - first);
    lines_of_block = (lines + turns - 1) / turns;
  }
  const std::byte* next;
  std::int64_t lines_of_block;
};

/// totals[r * kLowBitColumns + c], which has whole groups of kAmxRows rows, = a tile times `rows` prepared rows.
template <std::size_t kBits>
HWY_NOINLINE void multiply_in_amx(const LowBitMatrix& matrix, const RowLayout& layout,
                                  const std::byte* prepared, std::int64_t rows,
                                  const std::byte* tile, float* totals) {
  HWY_ALIGN std::byte panel[kAmxPanel * kLowBitColumns];
  const LowBitLayout packed(matrix);
  const std::int64_t at_once = kAmxPanel / matrix.block;
  std::int64_t shaped = 0;
  for (std::int64_t first = 0; first < packed.blocks; first += at_once) {
    const std::int64_t last = std::min(first + at_once, packed.blocks);
    unpack_bytes<kBits>(matrix, tile, first, last, panel);
    AmxAhead ahead(packed, tile, first, last, rows);
    for (std::int64_t row = 0; row < rows; row += kAmxRows) {
      const AmxRows some{prepared + row * layout.row_bytes, std::min(kAmxRows, rows - row),
                         totals + row * kLowBitColumns};
      const bool whole = some.count == kAmxRows;
      if (some.count != shaped)
        set_amx_shapes(some.count, some.count, std::min(matrix.block, kAmxBytes));
      shaped = some.count;
      for (std::size_t column = 0; column < kLowBitColumns; column += kLanes) {
        const AmxColumns by{tile, panel, first, last, column, ahead.next, ahead.lines_of_block};
        if (whole)
          add_amx_columns<true>(matrix, layout, by, some);
        else
          add_amx_columns<false>(matrix, layout, by, some);
        ahead.next += (last - first) * ahead.lines_of_block * kLineBytes;
      }
    }
  }
  release_amx();
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#else
#define CTXGEN_LOW_BIT_AMX 0
#endif

#endif
