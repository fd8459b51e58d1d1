#pragma once

#include <cstdint>

namespace ctxgen::kernels {

/// Which elements of a head are a pair: i and i + half, or 2 i and 2 i + 1.
enum class RotaryPairs : std::uint8_t { kHalves, kNeighbours };

/// out = in with its first 2 * half elements turned, pair by pair: x cos[i] - y sin[i] and
/// x sin[i] + y cos[i]; the others up to `size` are copied. `out` may be `in`, no other overlap. Each
/// element has the error of two products and a sum in f32.
///
/// Requires  0 <= 2 * half <= size.
/// Threads   any; the calling one does all the work.
void rotate_head(std::int64_t size, std::int64_t half, RotaryPairs pairs, const float* cos,
                 const float* sin, const float* in, float* out);

}  // namespace ctxgen::kernels
