#pragma once

#include "kernel/function_kernel.h"

// Types that no kernel computes in: float8 and float4 as float, 4- and 2-bit integers as int8 and
// uint8.

namespace ctxgen::cpu {

[[nodiscard]] bool is_small_float(DataType type);
[[nodiscard]] bool is_packed_int(DataType type);
/// float, int8 or uint8 for those types; the type itself for others.
[[nodiscard]] DataType unpacked_type(DataType type);

/// Into `wide` of the unpacked type and the same dims. Requires is_small_float or is_packed_int.
void unpack_small(const Tensor& tensor, Tensor& wide);
/// The way back, into `packed` of the same dims. Floats round to nearest even; with `saturate` what
/// does not fit becomes the largest value, else NaN or infinity. Integers keep their low bits.
void pack_small(const Tensor& tensor, Tensor& packed, bool saturate);

}  // namespace ctxgen::cpu
