#pragma once

#include <cstdint>
#include <initializer_list>

// Tiles of AMX (Intel's Software Developer's Manual, volume 1, chapter 18) for kernels that multiply blocks of up to 32
// rows by 32 columns of bytes: tiles 0 and 1 hold the sums of the first 16 rows, 2 and 3 those of the others, 4 and
// 5 the rows, 6 and 7 the columns. What they hold is the thread's own. Requires  may_use_tiles() (instruction_set.h).
#if defined(__x86_64__)
#define CTXGEN_HAVE_AMX 1

namespace ctxgen::kernels {

inline constexpr std::int64_t kAmxRows = 16;   // of a tile
inline constexpr std::int64_t kAmxBytes = 64;  // of a row of a tile

/// What LDTILECFG reads.
struct alignas(64) AmxShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// Shapes for blocks of `first` and `second` rows, 0 to kAmxRows, of `depth` bytes, a multiple of 4 up to kAmxBytes.
inline AmxShapes amx_shapes(std::int64_t first, std::int64_t second, std::int64_t depth) {
  AmxShapes shapes;
  const auto set = [&](int tile, std::int64_t rows, std::int64_t bytes) {
    shapes.rows[tile] = static_cast<std::uint8_t>(rows);
    shapes.row_bytes[tile] = static_cast<std::uint16_t>(rows == 0 ? 0 : bytes);
  };
  for (const int tile : {0, 1}) set(tile, first, kAmxBytes);
  for (const int tile : {2, 3}) set(tile, second, kAmxBytes);
  set(4, first, depth);
  set(5, second, depth);
  for (const int tile : {6, 7}) set(tile, depth / 4, kAmxBytes);
  return shapes;
}

/// Shapes that have just been written are slow to load.
inline void load_amx_shapes(const AmxShapes& shapes) {
  __asm__ volatile("ldtilecfg (%0)" ::"r"(&shapes) : "memory");
}
inline void set_amx_shapes(std::int64_t first, std::int64_t second, std::int64_t depth) {
  const AmxShapes shapes = amx_shapes(first, second, depth);
  load_amx_shapes(shapes);
}

inline void release_amx() { __asm__ volatile("tilerelease" ::: "memory"); }

}  // namespace ctxgen::kernels

// The compiler does not know tiles: each of these says that memory is read or written. `stride` in bytes.
#define CTXGEN_AMX_LOAD(tile, from, stride) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride) : "memory")
#define CTXGEN_AMX_STORE(tile, to, stride) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(stride) : "memory")
// The same `at` bytes, a constant, after `from` and `to`: without an instruction for the sum.
#define CTXGEN_AMX_LOAD_AT(tile, from, at, stride)                                         \
  __asm__ volatile("tileloadd %c2(%0,%1,1), %%tmm" #tile ::"r"(from), "r"(stride), "i"(at) \
                   : "memory")
#define CTXGEN_AMX_STORE_AT(tile, to, at, stride)                                            \
  __asm__ volatile("tilestored %%tmm" #tile ", %c2(%0,%1,1)" ::"r"(to), "r"(stride), "i"(at) \
                   : "memory")
#define CTXGEN_AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile ::)
// tmm[sum] += tmm[row] * tmm[column], by `tdpbusd` (unsigned rows, signed columns), `tdpbssd` (both signed) or `tdpbf16ps`.
#define CTXGEN_AMX_ADD(product, sum, row, column) \
  __asm__ volatile(#product " %%tmm" #column ", %%tmm" #row ", %%tmm" #sum ::)

#else
#define CTXGEN_HAVE_AMX 0
#endif
