#pragma once

#include "ctxgen/base/instruction_set.h"

/// For the loop of with_simd(): what is not inlined is not compiled for the instruction set.
#define CTXGEN_SIMD_LOOP [[gnu::always_inline]]

namespace ctxgen {

#if defined(__x86_64__)
namespace detail {
// By value: what is captured by reference could be changed by what the loop writes.
template <class Loop>
[[gnu::noinline, gnu::target("arch=x86-64-v4")]] auto run_avx512(Loop loop) {
  return loop();
}
template <class Loop>
[[gnu::noinline, gnu::target("arch=x86-64-v3")]] auto run_avx2(Loop loop) {
  return loop();
}
}  // namespace detail
#endif

/// Runs `loop`, which is compiled once per SimdLevel, at the one that the process may use:
/// with_simd([=] CTXGEN_SIMD_LOOP { for (...) out[i] += in[i]; }). Everything is captured by value.
/// Costs a few nanoseconds: around rows, not inside of them. Levels may differ in the last bit,
/// because above the baseline a product and a sum are rounded once (FMA).
template <class Loop>
auto with_simd(Loop loop) {
#if defined(__x86_64__)
  switch (simd_level()) {
    case SimdLevel::kAvx512: return detail::run_avx512(loop);
    case SimdLevel::kAvx2: return detail::run_avx2(loop);
    default: break;
  }
#endif
  return loop();
}

}  // namespace ctxgen
