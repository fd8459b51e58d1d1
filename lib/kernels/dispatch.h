#pragma once

#include "ctxgen/base/instruction_set.h"

// Which of a function's versions runs. Highway would ask the processor; this asks the one switch that
// limits oneDNN and own loops alike. Include it after highway.h, in the part that is compiled once.

#if HWY_TARGETS & HWY_AVX3
#define CTXGEN_AT_AVX512(call) \
  if (simd_level() == SimdLevel::kAvx512) return N_AVX3::call;
#else
#define CTXGEN_AT_AVX512(call)
#endif
#if HWY_TARGETS & HWY_AVX2
#define CTXGEN_AT_AVX2(call) \
  if (simd_level() >= SimdLevel::kAvx2) return N_AVX2::call;
#else
#define CTXGEN_AT_AVX2(call)
#endif

namespace ctxgen::kernels {

/// Whether the version that runs may use the products of four bytes of AVX-512-VNNI or AVX-VNNI.
inline bool may_use_vnni() {
  const InstructionSet usable = usable_instruction_set();
  return simd_level() == SimdLevel::kAvx512 ? includes(usable, InstructionSet::kAvx512CoreVnni)
                                            : includes(usable, InstructionSet::kAvx2Vnni);
}

}  // namespace ctxgen::kernels

/// Returns from the calling function what the version of `call`, a function with its arguments, does.
#define CTXGEN_DISPATCH(call)         \
  do {                                \
    CTXGEN_AT_AVX512(call)            \
    CTXGEN_AT_AVX2(call)              \
    return HWY_STATIC_DISPATCH(call); \
  } while (false)
