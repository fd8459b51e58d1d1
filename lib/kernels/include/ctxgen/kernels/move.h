#pragma once

#include <cstddef>
#include <cstdint>

namespace ctxgen::kernels {

// Moves of elements of 1, 2, 4 or 8 bytes without regard to their type. Source and result must not
// overlap; neither needs to be aligned. Sizes of 0 move nothing. Each call works on its own thread.

/// `rows` rows of `bytes` bytes. Pitches are bytes from row to row and may be 0 or negative in src.
struct RowCopy {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t src_pitch = 0;
  std::int64_t dst_pitch = 0;
};
void copy_rows(const RowCopy& copy, const std::byte* src, std::byte* dst);

/// dst[r * dst_pitch + c] = src[c * src_pitch + r] for r in [0, rows), c in [0, columns). Pitches in
/// elements; that of src may be 0 or negative, that of dst is at least `columns` or negative.
struct Transpose {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t src_pitch = 0;
  std::int64_t dst_pitch = 0;
};
void transpose(const Transpose& shape, std::int64_t element_bytes, const std::byte* src,
               std::byte* dst);

/// dst[i] = src[i * stride] for i in [0, count). `stride` in elements; 0 repeats one, negative strides
/// go backwards.
void take_every(std::int64_t count, std::int64_t stride, std::int64_t element_bytes,
                const std::byte* src, std::byte* dst);

}  // namespace ctxgen::kernels
