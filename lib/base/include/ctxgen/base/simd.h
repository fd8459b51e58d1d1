#pragma once

#include "ctxgen/base/instruction_set.h"

/// For what simd_loop() is given: what is not inlined is not compiled for the instruction set.
#define CTXGEN_SIMD_LOOP [[gnu::always_inline]]

namespace ctxgen {

/// A function that is compiled once per SimdLevel; a call takes the one that the process may use.
/// See simd_loop().
template <class Loop>
class SimdLoop {
 public:
  template <class... Args>
  auto operator()(Args... args) const {
#if defined(__x86_64__)
    switch (simd_level()) {
      case SimdLevel::kAvx512: return avx512(args...);
      case SimdLevel::kAvx2: return avx2(args...);
      default: break;
    }
#endif
    return Loop{}(args...);
  }

 private:
#if defined(__x86_64__)
  template <class... Args>
  [[gnu::noinline, gnu::target("arch=x86-64-v4")]] static auto avx512(Args... args) {
    return Loop{}(args...);
  }
  template <class... Args>
  [[gnu::noinline, gnu::target("arch=x86-64-v3")]] static auto avx2(Args... args) {
    return Loop{}(args...);
  }
#endif
};

/// constexpr auto fill = simd_loop([] CTXGEN_SIMD_LOOP(std::int64_t n, float x, float* out) {
///   for (std::int64_t i = 0; i < n; ++i) out[i] = x;
/// });
///
/// It captures nothing: arguments go in registers, where a closure would go through memory, which
/// costs as much as a short row. A call takes a nanosecond: around rows, not inside of them. Levels
/// may differ in the last bit: above the baseline a product and a sum are rounded once (FMA).
template <class Loop>
constexpr SimdLoop<Loop> simd_loop(Loop /*loop*/) {
  return {};
}

}  // namespace ctxgen
