#pragma once

#include "kernel_support.h"

// float8_e8m0: powers of two from 2^-127 (code 0) to 2^127 (code 254), and NaN (255). No sign.

namespace ctxgen::cpu {

enum class E8m0Rounding { kUp, kDown, kNearest };  // kNearest: ties up

/// One float per element.
[[nodiscard]] Result<Tensor> unpack_e8m0(const Tensor& tensor);
/// From floats; signs are dropped. With `saturate` what does not fit becomes the nearest code, else
/// NaN.
[[nodiscard]] Result<Tensor> pack_e8m0(const Tensor& tensor, E8m0Rounding rounding, bool saturate);

}  // namespace ctxgen::cpu
