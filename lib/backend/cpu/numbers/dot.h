#pragma once

#include <cstdint>

#include "ctxgen/base/simd.h"

namespace ctxgen::cpu {

/// The sum of the products of two rows of floats, in double precision: in several sums, so that none waits for
/// the one before.
inline constexpr auto double_dot =
    simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, const float* a, const float* b) {
      constexpr std::int64_t kSums = 16;
      double sums[kSums] = {};
      std::int64_t i = 0;
      for (; i + kSums <= n; i += kSums)
        for (std::int64_t j = 0; j < kSums; ++j)
          sums[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
      for (; i < n; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
      double sum = 0;
      for (const double part : sums) sum += part;
      return sum;
    });

}  // namespace ctxgen::cpu
