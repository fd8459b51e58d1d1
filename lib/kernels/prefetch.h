#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// Whether the processor is one of Intel's: its cores and AMD's of the same instruction set read memory and their second
/// cache at different speeds, so that measured choices differ.
[[nodiscard]] bool has_intel_cores();

/// Whether f32 products of one row ask for their matrix ahead of the hardware's own prefetching. Measured (docs/onednn.md, "Packed
/// weights"): Intel's cores gain from it, AMD's lose.
[[nodiscard]] bool row_prefetch_pays();

/// Whether f32 products of many rows ask for the panels that follow. Measured there, too: Intel's cores gain from it and
/// AMD's from Zen 5 on; older ones were not measured.
[[nodiscard]] bool panel_prefetch_pays();

/// How far ahead: two pages, where the hardware stops at the end of one.
inline constexpr std::uintptr_t kPrefetchBytes = 8192;

/// Asks for the cache line `bytes` after `at`, which may be outside of any object.
inline void prefetch(const void* at, std::uintptr_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) + bytes));
}

inline constexpr std::int64_t kLineBytes = 64;

/// Asks for the cache line at `at` in the second cache. It may be outside of any object.
inline void prefetch_second(const void* at) { __builtin_prefetch(at, 0, 2); }

}  // namespace ctxgen::kernels
