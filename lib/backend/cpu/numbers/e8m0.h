#pragma once

#include "kernel/function_kernel.h"

// float8_e8m0: powers of two from 2^-127 (code 0) to 2^127 (code 254), and NaN (255). No sign.

namespace ctxgen::cpu {

enum class E8m0Rounding { kUp, kDown, kNearest };  // kNearest: ties up

/// Into floats of the same dims.
void unpack_e8m0(const Tensor& tensor, Tensor& wide);
/// From floats into `packed`, of the same dims; signs are dropped. With `saturate` what does not fit
/// becomes the nearest code, else NaN.
void pack_e8m0(const Tensor& tensor, Tensor& packed, E8m0Rounding rounding, bool saturate);

}  // namespace ctxgen::cpu
