// Rows of products of bytes as the kernels read them. Compiled once per instruction set, so without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_PREPARE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_PREPARE_INL_H
#undef CTXGEN_KERNELS_BYTE_PREPARE_INL_H
#else
#define CTXGEN_KERNELS_BYTE_PREPARE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "bytes/byte_rows.h"
#include "bytes/byte_steps-inl.h"
#include "bytes/byte_sums-inl.h"
#include "bytes/byte_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

/// By the tiles of AMX, whole depths of them.
struct TiledBytes {
  static constexpr std::size_t kGroupBytes = 4;
};

/// Rows as the kernels read them, and what their results need.
struct PreparedBytes {
  const std::uint8_t* rows;
  std::int64_t stride;           // bytes
  const std::int32_t* row_sums;  // where the matrix has zero points
  std::uint8_t* largest;         // of ByteBlocks, for SteppedBytes: find_blocks() writes them
  const std::uint8_t*
      last_rows;         // for TiledBytes: the last kTileRows again, each as long as it is; or null
  std::int32_t zero;     // of the rows, as u8
  ByteLines lines = {};  // for VnniBytes
};

/// Four elements a time as bytes, or as 16-bit integers in the order 0, 2, 1, 3; s8 becomes u8 by adding
/// 128. Filled up with zeros.
template <class Bytes_>
HWY_NOINLINE void prepare_elements(bool is_signed, std::int64_t count, const std::uint8_t* from,
                                   std::uint8_t* to) {
  const Words d;
  const hn::Repartition<std::uint8_t, Words> bytes;
  const auto flip = hn::Set(bytes, is_signed ? 128 : 0);
  const auto k = static_cast<std::size_t>(count), lanes = hn::Lanes(bytes);
  const std::size_t groups = (k + 3) / 4;
  HWY_ALIGN std::uint8_t last[hn::MaxLanes(bytes) * 2];
  for (std::size_t i = 0; i < k; i += lanes) {
    const bool whole = k - i >= lanes;
    auto value = hn::Xor(hn::LoadN(bytes, from + i, std::min(k - i, lanes)), flip);
    if (!whole) value = hn::IfThenElseZero(hn::FirstN(bytes, k - i), value);
    std::uint8_t* out = whole ? to + i / 4 * Bytes_::kGroupBytes : last;
    if constexpr (Bytes_::kGroupBytes == 4) {
      hn::StoreU(value, bytes, out);
    } else {
      const auto words = hn::BitCast(d, value);
      const auto mask = hn::Set(d, 0x00FF00FFU);
      hn::StoreInterleaved2(hn::And(words, mask), hn::And(hn::ShiftRight<8>(words), mask), d,
                            reinterpret_cast<std::uint32_t*>(out));
    }
    if (!whole)
      std::memcpy(to + i / 4 * Bytes_::kGroupBytes, last, (groups - i / 4) * Bytes_::kGroupBytes);
  }
}

HWY_INLINE std::int64_t row_stride(const ByteProduct& p) {
  return p.a_stride == 0 ? p.matrix.k : p.a_stride;
}

HWY_NOINLINE inline std::int32_t sum_of_row(const ByteProduct& p, const std::uint8_t* from) {
  const hn::Repartition<std::uint8_t, Words> bytes;
  const hn::Repartition<std::uint64_t, Words> d;
  const auto flip = hn::Set(bytes, p.is_signed ? 128 : 0);
  const auto k = static_cast<std::size_t>(p.matrix.k), lanes = hn::Lanes(bytes);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= k; i += lanes)
    sum = hn::Add(sum, hn::SumsOf8(hn::Xor(hn::LoadU(bytes, from + i), flip)));
  if (i < k) {
    const auto rest = hn::Xor(hn::LoadN(bytes, from + i, k - i), flip);
    sum = hn::Add(sum, hn::SumsOf8(hn::IfThenElseZero(hn::FirstN(bytes, k - i), rest)));
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(hn::ReduceSum(d, sum)));
}

/// Calls task(row, count) for all rows, `step` at a time; `workers` help where they are worth it.
template <class Task>
HWY_INLINE void for_byte_rows(const ByteProduct& p, std::int64_t step, Workers& workers,
                              const Task& task) {
  constexpr std::int64_t kWorthThreads = 256 * 1024;
  const auto take = [&](std::int64_t i)
                        HWY_ATTR { task(i * step, std::min(step, p.rows - i * step)); };
  const std::int64_t tasks = (p.rows + step - 1) / step;
  if (tasks > 1 && p.matrix.k >= kWorthThreads / p.rows) return workers.parallel_for(tasks, take);
  for (std::int64_t i = 0; i < tasks; ++i) take(i);
}

/// Whether rows are read where they are: as bytes, with no group that reaches into the next row.
template <class Bytes_>
bool reads_in_place(const ByteProduct& p) {
  return Bytes_::kGroupBytes == 4 && !p.is_signed && row_stride(p) % 4 == 0;
}

/// Copies the last rows of `p` for tiles, which read more than a row has: nothing may be there.
HWY_NOINLINE inline const std::uint8_t* copy_last_rows(const ByteProduct& p, std::uint8_t* to) {
  const std::int64_t bytes = ByteLayout(p.matrix).groups * 4;
  if (bytes < kTileDepth || bytes % kTileDepth == 0) return nullptr;
  const std::int64_t count = std::min(p.rows, kTileRows);
  const std::uint8_t* from = p.a + (p.rows - count) * row_stride(p);
  for (std::int64_t row = 0; row < count; ++row)
    std::memcpy(to + row * bytes, from + row * row_stride(p), static_cast<std::size_t>(bytes));
  return to;
}

/// Writes the largest bytes of the steps of blocks [first, end) of rows.
HWY_NOINLINE inline void find_blocks(const ByteProduct& p, const PreparedBytes& rows,
                                     std::int64_t first, std::int64_t end) {
  const ByteBlocks blocks(p.matrix, p.rows);
  for (std::int64_t i = first; i < end; ++i) {
    const std::int64_t row = i * kRowsOfBlock;
    find_largest(rows.rows + row * rows.stride, std::min(kRowsOfBlock, p.rows - row), rows.stride,
                 ByteLayout(p.matrix).groups / 2, rows.largest + i * blocks.line);
  }
}

template <class Bytes_>
HWY_NOINLINE PreparedBytes prepare_rows(const ByteProduct& p, Workers& workers) {
  const std::uint32_t flip = p.is_signed ? 128 : 0;
  const std::uint32_t zero = (p.a_zero == nullptr ? 0U : *p.a_zero) ^ flip;
  if (p.lines.rows > 0)
    return {.rows = p.a,
            .stride = p.a_stride,
            .row_sums = nullptr,
            .largest = nullptr,
            .last_rows = nullptr,
            .zero = static_cast<std::int32_t>(zero),
            .lines = p.lines};
  const ByteRows layout(p.matrix, p.rows, Bytes_::kGroupBytes);
  const bool in_place = reads_in_place<Bytes_>(p), zeros = p.matrix.zeros;
  auto* sums = reinterpret_cast<std::int32_t*>(p.scratch);
  auto* values = reinterpret_cast<std::uint8_t*>(p.scratch) + layout.values_offset;
  // Rows of whole groups that follow one another are as one: short ones by themselves take longer.
  constexpr std::int64_t kJoinedRows = 16;
  const std::int64_t stride = row_stride(p);
  const bool joined = stride == ByteLayout(p.matrix).groups * 4;
  if (!in_place || zeros)
    for_byte_rows(p, joined ? kJoinedRows : 1, workers,
                  [&](std::int64_t first, std::int64_t count) HWY_ATTR {
                    const std::uint8_t* from = p.a + first * stride;
                    if (!in_place)
                      prepare_elements<Bytes_>(p.is_signed, joined ? count * stride : p.matrix.k,
                                               from, values + first * layout.stride);
                    if (!zeros) return;
                    for (std::int64_t row = 0; row < count; ++row)
                      sums[first + row] = sum_of_row(p, from + row * stride);
                  });
  std::uint8_t* largest = nullptr;
  if constexpr (std::is_same_v<Bytes_, SteppedBytes>)
    largest = values + (in_place ? 0 : p.rows * layout.stride);
  const std::uint8_t* last_rows = nullptr;
  if constexpr (std::is_same_v<Bytes_, TiledBytes>)
    if (in_place) last_rows = copy_last_rows(p, values);
  return {.rows = in_place ? p.a : values,
          .stride = in_place ? row_stride(p) : layout.stride,
          .row_sums = zeros ? sums : nullptr,
          .largest = largest,
          .last_rows = last_rows,
          .zero = static_cast<std::int32_t>(zero)};
}

template <std::size_t kRows>
HWY_INLINE RowPointers<kRows> rows_at(const PreparedBytes& rows, std::int64_t row) {
  const std::int64_t line = rows.lines.rows;
  if (HWY_UNLIKELY(line > 0))
    return {rows.rows + row / line * rows.lines.stride + row % line * rows.stride,
            static_cast<std::size_t>(rows.stride)};
  return {rows.rows + row * rows.stride, static_cast<std::size_t>(rows.stride)};
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
