#pragma once

#include <cstddef>
#include <cstdint>

#include "ctxgen/kernels/byte_product.h"

// Element-wise work whose results are bytes.
namespace ctxgen::kernels {

/// out = in by `steps` (ByteSteps), any numbers. Exact: as a division, a rounding and bounds make it.
void round_to_bytes(const ByteSteps& steps, std::int64_t count, const float* in, std::uint8_t* out);

/// Bytes that stand for (byte - zero) * scale.
struct ByteTerm {
  const std::uint8_t* bytes = nullptr;
  bool is_signed = false;
  std::int32_t zero = 0;
  float scale = 1;
};

/// out = (a + b) by `steps`: each term, the sum and its quotient rounded. Exact likewise. `out` may be the bytes of a term.
///
/// Threads  the calling one.
void add_to_bytes(const ByteTerm& a, const ByteTerm& b, const ByteSteps& steps, std::int64_t count,
                  std::uint8_t* out);

}  // namespace ctxgen::kernels
