#include "ctxgen/kernels/move.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "move.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace ctxgen::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One element; what is moved may be aligned to less than its width.
template <class T>
HWY_INLINE void move_one(const T* src, T* dst) {
  std::memcpy(dst, src, sizeof(T));
}

// ---- rows ---------------------------------------------------------------------------------------------------------------

/// A row of at least one vector: the last vector ends with the row and overlaps the one before.
template <class D>
HWY_INLINE void copy_vectors(D d, std::int64_t bytes, const std::uint8_t* src, std::uint8_t* dst) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= bytes; i += 2 * lanes) {
    const auto a = hn::LoadU(d, src + i), b = hn::LoadU(d, src + i + lanes);
    hn::StoreU(a, d, dst + i);
    hn::StoreU(b, d, dst + i + lanes);
  }
  if (i + lanes <= bytes) {
    hn::StoreU(hn::LoadU(d, src + i), d, dst + i);
    i += lanes;
  }
  if (i < bytes) hn::StoreU(hn::LoadU(d, src + bytes - lanes), d, dst + bytes - lanes);
}

/// A row of sizeof(Word) to twice that many bytes.
template <class Word>
struct CopyWords {
  HWY_INLINE void operator()(std::int64_t bytes, const std::uint8_t* src, std::uint8_t* dst) const {
    Word first, last;
    std::memcpy(&first, src, sizeof(Word));
    std::memcpy(&last, src + bytes - sizeof(Word), sizeof(Word));
    std::memcpy(dst, &first, sizeof(Word));
    std::memcpy(dst + bytes - sizeof(Word), &last, sizeof(Word));
  }
};

template <class Row>
HWY_INLINE void for_rows(const RowCopy& copy, const std::uint8_t* src, std::uint8_t* dst,
                         const Row& row) {
  for (std::int64_t r = 0; r < copy.rows; ++r)
    row(copy.bytes, src + r * copy.src_pitch, dst + r * copy.dst_pitch);
}

HWY_NOINLINE void copy_rows(const RowCopy& copy, const std::byte* from, std::byte* to) {
  constexpr std::int64_t kLong = 4096;  // from here on the C library's way is as fast or faster
  const hn::ScalableTag<std::uint8_t> d;
  const hn::CappedTag<std::uint8_t, 16> block;
  const auto* src = reinterpret_cast<const std::uint8_t*>(from);
  auto* dst = reinterpret_cast<std::uint8_t*>(to);
  const std::int64_t bytes = copy.bytes;
  if (bytes >= kLong)
    for_rows(copy, src, dst, [](std::int64_t n, const std::uint8_t* in, std::uint8_t* out) {
      std::memcpy(out, in, static_cast<std::size_t>(n));
    });
  else if (bytes >= static_cast<std::int64_t>(hn::Lanes(d)))
    for_rows(copy, src, dst,
             [d](std::int64_t n, const std::uint8_t* in, std::uint8_t* out)
                 HWY_ATTR { copy_vectors(d, n, in, out); });
  else if (bytes >= 16)
    for_rows(copy, src, dst,
             [block](std::int64_t n, const std::uint8_t* in, std::uint8_t* out)
                 HWY_ATTR { copy_vectors(block, n, in, out); });
  else if (bytes >= 8)
    for_rows(copy, src, dst, CopyWords<std::uint64_t>());
  else if (bytes >= 4)
    for_rows(copy, src, dst, CopyWords<std::uint32_t>());
  else if (bytes >= 2)
    for_rows(copy, src, dst, CopyWords<std::uint16_t>());
  else if (bytes == 1)
    for_rows(copy, src, dst, CopyWords<std::uint8_t>());
}

// ---- transposes ---------------------------------------------------------------------------------------------------------

/// A vector whose block b of 16 bytes is what is at src + b * step.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* src, std::int64_t step) {
  constexpr std::size_t kLanes = hn::MaxLanes(d), kBlock = 16 / sizeof(T);
  if constexpr (kLanes <= kBlock) {
    return hn::LoadU(d, src);
  } else {
    const hn::Half<D> half;
    constexpr auto kHalf = static_cast<std::int64_t>(kLanes / kBlock / 2);
    return hn::Combine(d, load_blocks(half, src + kHalf * step, step),
                       load_blocks(half, src, step));
  }
}

/// As many rows as 16 bytes have elements, as many columns as a vector has. A block of 16 bytes is
/// transposed as a square: interleaving row i with row i + n/2, log2(n) times over.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_block(D d, const T* src, std::int64_t src_pitch, T* dst,
                                std::int64_t dst_pitch) {
  constexpr std::int64_t kRows = 16 / sizeof(T);
  hn::Vec<D> rows[static_cast<std::size_t>(kRows)];
  for (std::int64_t k = 0; k < kRows; ++k)
    rows[k] = load_blocks(d, src + k * src_pitch, kRows * src_pitch);
  for (std::int64_t round = 1; round < kRows; round *= 2) {
    hn::Vec<D> next[static_cast<std::size_t>(kRows)];
    for (std::int64_t k = 0; k < kRows / 2; ++k) {
      next[2 * k] = hn::InterleaveLower(d, rows[k], rows[k + kRows / 2]);
      next[2 * k + 1] = hn::InterleaveUpper(d, rows[k], rows[k + kRows / 2]);
    }
    for (std::int64_t k = 0; k < kRows; ++k) rows[k] = next[k];
  }
  for (std::int64_t k = 0; k < kRows; ++k) hn::StoreU(rows[k], d, dst + k * dst_pitch);
}

/// Columns [c, c + width of D) of rows [first, last), which are at least those of one block. The last
/// block ends with the rows and may write again what the one before wrote.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE void transpose_columns(D d, std::int64_t first, std::int64_t last, const T* src,
                                  std::int64_t src_pitch, T* dst, std::int64_t dst_pitch) {
  constexpr std::int64_t kRows = 16 / sizeof(T);
  std::int64_t r = first;
  for (; r + kRows <= last; r += kRows)
    transpose_block(d, src + r, src_pitch, dst + r * dst_pitch, dst_pitch);
  if (r < last) {
    r = last - kRows;
    transpose_block(d, src + r, src_pitch, dst + r * dst_pitch, dst_pitch);
  }
}

/// Where both sizes are at least those of a block of 16 bytes. Tiles of a cache line in both directions,
/// so that a line is read and written once even where pitches map all lines to one set of a cache.
template <class T>
HWY_INLINE void transpose_tiles(const Transpose& t, const T* src, T* dst) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 16 / sizeof(T)> block;
  constexpr std::int64_t kRows = 16 / sizeof(T), kTile = 64 / sizeof(T);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t r = 0; r < t.rows; r += kTile) {
    const std::int64_t last = std::min(r + kTile, t.rows);
    const std::int64_t first = std::max<std::int64_t>(0, std::min(r, last - kRows));
    std::int64_t c = 0;
    for (; c + lanes <= t.columns; c += lanes)
      transpose_columns(d, first, last, src + c * t.src_pitch, t.src_pitch, dst + c, t.dst_pitch);
    for (; c < t.columns; c += kRows) {
      c = std::min(c, t.columns - kRows);
      transpose_columns(block, first, last, src + c * t.src_pitch, t.src_pitch, dst + c,
                        t.dst_pitch);
    }
  }
}

template <class T>
HWY_INLINE void transpose_singly(const Transpose& t, const T* src, T* dst, std::int64_t first) {
  for (std::int64_t r = first; r < t.rows; ++r)
    for (std::int64_t c = 0; c < t.columns; ++c)
      move_one(src + c * t.src_pitch + r, dst + r * t.dst_pitch + c);
}

/// 2 to 4 columns that fill the rows of dst.
template <class T>
HWY_INLINE void interleave(const Transpose& t, const T* src, T* dst) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t pitch = t.src_pitch;
  std::int64_t r = 0;
  for (; r + lanes <= t.rows; r += lanes) {
    const auto a = hn::LoadU(d, src + r), b = hn::LoadU(d, src + pitch + r);
    if (t.columns == 2) {
      hn::StoreInterleaved2(a, b, d, dst + 2 * r);
      continue;
    }
    const auto c = hn::LoadU(d, src + 2 * pitch + r);
    if (t.columns == 3)
      hn::StoreInterleaved3(a, b, c, d, dst + 3 * r);
    else
      hn::StoreInterleaved4(a, b, c, hn::LoadU(d, src + 3 * pitch + r), d, dst + 4 * r);
  }
  transpose_singly(t, src, dst, r);
}

/// 2 to 4 rows that fill the columns of src.
template <class T>
HWY_INLINE void deinterleave(const Transpose& t, const T* src, T* dst) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t pitch = t.dst_pitch;
  std::int64_t at = 0;
  for (; at + lanes <= t.columns; at += lanes) {
    hn::Vec<decltype(d)> a, b, c, e;
    if (t.rows == 2) {
      hn::LoadInterleaved2(d, src + 2 * at, a, b);
    } else if (t.rows == 3) {
      hn::LoadInterleaved3(d, src + 3 * at, a, b, c);
      hn::StoreU(c, d, dst + 2 * pitch + at);
    } else {
      hn::LoadInterleaved4(d, src + 4 * at, a, b, c, e);
      hn::StoreU(c, d, dst + 2 * pitch + at);
      hn::StoreU(e, d, dst + 3 * pitch + at);
    }
    hn::StoreU(a, d, dst + at);
    hn::StoreU(b, d, dst + pitch + at);
  }
  const Transpose rest{t.rows, t.columns - at, t.src_pitch, t.dst_pitch};
  transpose_singly(rest, src + at * t.src_pitch, dst + at, 0);
}

template <class T>
HWY_INLINE void transpose_as(const Transpose& t, const std::byte* from, std::byte* to) {
  const auto* src = reinterpret_cast<const T*>(from);
  auto* dst = reinterpret_cast<T*>(to);
  constexpr std::int64_t kRows = 16 / sizeof(T);
  if (t.columns >= 2 && t.columns <= 4 && t.dst_pitch == t.columns)
    interleave(t, src, dst);
  else if (t.rows >= 2 && t.rows <= 4 && t.src_pitch == t.rows)
    deinterleave(t, src, dst);
  else if (t.rows >= kRows && t.columns >= kRows)
    transpose_tiles(t, src, dst);
  else
    transpose_singly(t, src, dst, 0);
}

HWY_NOINLINE void transpose(const Transpose& shape, std::int64_t element_bytes,
                            const std::byte* src, std::byte* dst) {
  switch (element_bytes) {
    case 1: return transpose_as<std::uint8_t>(shape, src, dst);
    case 2: return transpose_as<std::uint16_t>(shape, src, dst);
    case 4: return transpose_as<std::uint32_t>(shape, src, dst);
    default: return transpose_as<std::uint64_t>(shape, src, dst);
  }
}

// ---- single rows --------------------------------------------------------------------------------------------------------

template <class T>
HWY_INLINE void take_every_as(std::int64_t count, std::int64_t stride, const std::byte* from,
                              std::byte* to) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* src = reinterpret_cast<const T*>(from);
  auto* dst = reinterpret_cast<T*>(to);
  std::int64_t i = 0;
  if (stride == 0 && count > 0) {
    T value;
    std::memcpy(&value, src, sizeof(T));
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Set(d, value), d, dst + i);
  } else if (stride == -1) {
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::Reverse(d, hn::LoadU(d, src - i - lanes + 1)), d, dst + i);
  } else if (stride == 2) {
    // Two vectors are read up to the element after the last one taken: not where that is the end.
    for (; i + lanes < count; i += lanes) {
      const auto low = hn::LoadU(d, src + 2 * i), high = hn::LoadU(d, src + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, dst + i);
    }
  }
  for (; i < count; ++i) move_one(src + i * stride, dst + i);
}

HWY_NOINLINE void take_every(std::int64_t count, std::int64_t stride, std::int64_t element_bytes,
                             const std::byte* src, std::byte* dst) {
  switch (element_bytes) {
    case 1: return take_every_as<std::uint8_t>(count, stride, src, dst);
    case 2: return take_every_as<std::uint16_t>(count, stride, src, dst);
    case 4: return take_every_as<std::uint32_t>(count, stride, src, dst);
    default: return take_every_as<std::uint64_t>(count, stride, src, dst);
  }
}

}  // namespace ctxgen::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"

namespace ctxgen::kernels {

void copy_rows(const RowCopy& copy, const std::byte* src, std::byte* dst) {
  CTXGEN_DISPATCH(copy_rows(copy, src, dst));
}

void transpose(const Transpose& shape, std::int64_t element_bytes, const std::byte* src,
               std::byte* dst) {
  CTXGEN_DISPATCH(transpose(shape, element_bytes, src, dst));
}

void take_every(std::int64_t count, std::int64_t stride, std::int64_t element_bytes,
                const std::byte* src, std::byte* dst) {
  CTXGEN_DISPATCH(take_every(count, stride, element_bytes, src, dst));
}

}  // namespace ctxgen::kernels
#endif
