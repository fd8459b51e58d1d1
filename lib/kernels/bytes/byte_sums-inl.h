// Rows of bytes times tiles of 32 columns of bytes, summed exactly. Compiled once per instruction set, so
// without a plain include guard.
#if defined(CTXGEN_KERNELS_BYTE_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CTXGEN_KERNELS_BYTE_SUMS_INL_H
#undef CTXGEN_KERNELS_BYTE_SUMS_INL_H
#else
#define CTXGEN_KERNELS_BYTE_SUMS_INL_H
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

#include "bytes/byte_rows.h"
#include "dot-inl.h"
#include "prefetch.h"

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {

constexpr std::size_t kByteLanes = hn::MaxLanes(Floats());
constexpr std::size_t kByteVectors = kByteColumns / kByteLanes;  // of a tile
constexpr std::size_t kByteWordRow = kByteColumns * 4;           // bytes

/// Calls add(sum[r][v], four bytes of row r at `offset`, v).
template <std::size_t kRows, std::size_t kVectors, class Add>
HWY_INLINE void for_sums(const RowPointers<kRows>& rows, std::size_t offset,
                         hn::Vec<Ints> (&sum)[kRows][kVectors], const Add& add) {
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto four = spread_four(rows.row(r) + offset);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) add(sum[r][v], four, v);
  }
}

/// By products of 16 bits, which hold every pair: any instruction set. A group of a row is its elements
/// 0, 2, 1 and 3 as 16-bit integers.
struct WideBytes {
  static constexpr std::size_t kGroupBytes = 8;
  static constexpr std::size_t kWordRow = kByteWordRow;
  static constexpr std::size_t kStepBytes = kGroupBytes;  // of a row, in one call of add()
  static constexpr bool kAsksAhead = false;

  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void add(const RowPointers<kRows>& rows, const std::byte* words,
                             hn::Vec<Ints> (&sum)[kRows][kVectors]) {
    hn::Vec<Shorts> half[kVectors];
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v)
      half[v] = hn::ShiftRight<8>(hn::ShiftLeft<8>(load(words, v)));
    add_half(rows, 0, half, sum);
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) half[v] = hn::ShiftRight<8>(load(words, v));
    add_half(rows, 4, half, sum);
  }

  /// The same halves as 16-bit integers, for WidenedBytes.
  template <std::size_t kVectors>
  static HWY_INLINE void widen(const std::byte* words, std::byte* to) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const auto word = load(words, v);
      store(hn::ShiftRight<8>(hn::ShiftLeft<8>(word)), to, v);
      store(hn::ShiftRight<8>(word), to, kVectors + v);
    }
  }

 protected:
  static HWY_INLINE void store(hn::Vec<Shorts> half, std::byte* to, std::size_t v) {
    hn::StoreU(hn::BitCast(Words(), half), Words(),
               reinterpret_cast<std::uint32_t*>(to) + v * kByteLanes);
  }
  static HWY_INLINE hn::Vec<Shorts> load(const std::byte* words, std::size_t v) {
    return hn::BitCast(Shorts(), hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(words) +
                                                        v * kByteLanes));
  }
  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void add_half(const RowPointers<kRows>& rows, std::size_t offset,
                                  const hn::Vec<Shorts> (&half)[kVectors],
                                  hn::Vec<Ints> (&sum)[kRows][kVectors]) {
    for_sums(rows, offset, sum, [&](hn::Vec<Ints>& to, hn::Vec<Ints> pair, std::size_t v) HWY_ATTR {
      add_kept(to, hn::WidenMulPairwiseAdd(Ints(), half[v], hn::BitCast(Shorts(), pair)));
    });
  }
};

/// By words that WideBytes::widen() made: many rows share what it costs. A step is half a group: with both
/// at once the compiler does not keep all sums in registers.
struct WidenedBytes : WideBytes {
  static constexpr std::size_t kVectorsOfWords = 2;
  static constexpr std::size_t kWordRow = kVectorsOfWords * kByteLanes * 4;
  static constexpr std::size_t kStepBytes = kGroupBytes / 2;

  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void add(const RowPointers<kRows>& rows, const std::byte* words,
                             hn::Vec<Ints> (&sum)[kRows][kVectors]) {
    static_assert(kVectors == kVectorsOfWords);
    hn::Vec<Shorts> half[kVectors];
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v) half[v] = load(words, v);
    add_half(rows, 0, half, sum);
  }
};

#if CTXGEN_HAVE_VNNI
/// A group of a row is four bytes.
struct VnniBytes {
  static constexpr std::size_t kGroupBytes = 4;
  static constexpr std::size_t kWordRow = kByteWordRow;
  static constexpr std::size_t kStepBytes = kGroupBytes;
  static constexpr bool kAsksAhead = true;

  template <std::size_t kRows, std::size_t kVectors>
  static HWY_INLINE void add(const RowPointers<kRows>& rows, const std::byte* words,
                             hn::Vec<Ints> (&sum)[kRows][kVectors]) {
    hn::Vec<Ints> by[kVectors];
    HWY_UNROLL(8)
    for (std::size_t v = 0; v < kVectors; ++v)
      by[v] = hn::LoadU(Ints(), reinterpret_cast<const std::int32_t*>(words) + v * kByteLanes);
    for_sums(rows, 0, sum, [&](hn::Vec<Ints>& to, hn::Vec<Ints> four, std::size_t v) HWY_ATTR {
      add_products(to, hn::BitCast(Words(), four), by[v]);
    });
  }
};
#endif

/// What is asked for, into the second cache: a line for each step, so many bytes after the words and from step to step.
struct AskedWords {
  std::size_t bytes, step;
};

/// sum[r][v] += those of kRows prepared rows and kVectors vectors of columns of a tile. Few sums are kept twice:
/// one chain of additions would wait for each.
template <class Bytes_, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void add_columns(std::int64_t groups, RowPointers<kRows> rows, const std::byte* words,
                            AskedWords ahead, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  constexpr std::size_t kChains = kRows * kVectors <= 6 ? 2 : 1;
  constexpr std::size_t kAhead = 4096;  // bytes that are fetched before they are used
  hn::Vec<Ints> chain[kChains][kRows][kVectors];
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v) {
      chain[kChains - 1][r][v] = hn::Zero(Ints());
      chain[0][r][v] = sum[r][v];
    }
  const std::byte* next = words + ahead.bytes;
  auto left = static_cast<std::size_t>(groups) * (Bytes_::kGroupBytes / Bytes_::kStepBytes);
  for (; left >= kChains; left -= kChains) {
    HWY_UNROLL(2)
    for (std::size_t c = 0; c < kChains; ++c) {
      if constexpr (kChains > 1) {
        for (std::size_t byte = 0; byte < kVectors * kByteLanes * 4; byte += 64)
          hwy::Prefetch(words + kAhead + byte);
      } else if constexpr (Bytes_::kAsksAhead) {
        prefetch_second(next);
        next += ahead.step;
      }
      Bytes_::add(rows, words, chain[c]);
      words += Bytes_::kWordRow;
      rows.advance(Bytes_::kStepBytes);
    }
  }
  if (left > 0) Bytes_::add(rows, words, chain[0]);
  HWY_UNROLL(16)
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t v = 0; v < kVectors; ++v)
      sum[r][v] = kChains > 1 ? hn::Add(chain[0][r][v], chain[kChains - 1][r][v]) : chain[0][r][v];
}

/// sum[r][v] of them.
template <class Bytes_, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void sum_columns(std::int64_t groups, const RowPointers<kRows>& rows,
                            const std::byte* words, hn::Vec<Ints> (&sum)[kRows][kVectors]) {
  for (auto& row : sum)
    for (auto& value : row) value = hn::Zero(Ints());
  add_columns<Bytes_>(groups, rows, words, {0, 0}, sum);
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
