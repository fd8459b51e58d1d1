#pragma once

#include <cstddef>
#include <cstdint>

namespace ctxgen::kernels {

/// How numbers are kept as signed integers times a scale: integers of 8 bits, or of 4 bits, two in a byte, the first
/// one in its low half, each 8 more than it is. An odd last one has a byte of its own, whose high half is 8.
struct QuantisedForm {
  int bits = 8;
  bool per_element = false;  // a scale for each element of a row, otherwise one
  [[nodiscard]] std::int64_t row_bytes(std::int64_t size) const {
    return bits == 4 ? (size + 1) / 2 : size;
  }
};

/// to[i] = the integer next to from[i] / scale, the nearest there is; the largest for NaN. A scale of 0 counts as 1.
///
/// Requires  bits of 4 or 8.
/// Threads   any; the calling one does all the work.
void quantise_row(const QuantisedForm& form, const float* scales, std::int64_t size,
                  const float* from, std::byte* to);

}  // namespace ctxgen::kernels
