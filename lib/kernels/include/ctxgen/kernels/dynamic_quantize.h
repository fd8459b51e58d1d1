#pragma once

#include <cstdint>

#include "ctxgen/base/workers.h"

namespace ctxgen::kernels {

struct DynamicQuantize {
  std::int64_t count = 0;
  const float* x = nullptr;      // [count]
  std::uint8_t* y = nullptr;     // [count]
  float* scale = nullptr;        // one
  std::uint8_t* zero = nullptr;  // one
};

/// Rounds a tensor to bytes with a scale and zero point from its range, as ONNX's DynamicQuantizeLinear
/// does, bit for bit: scale = (max(x, 0) - min(x, 0)) / 255, zero = round(-min(x, 0) / scale), and
/// y = saturate(round(x / scale) + zero), halves to even. All zeros, or no elements: scale 1.
///
/// NaN       has no part in the range, and becomes the zero point, as does infinity where the range is
///           infinite.
/// Threads   any; the result does not depend on them.
void dynamic_quantize(const DynamicQuantize& q, Workers& workers);

}  // namespace ctxgen::kernels
