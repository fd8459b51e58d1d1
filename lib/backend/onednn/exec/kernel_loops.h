#pragma once

#include <omp.h>

#include <cstdint>

// Own loops are compiled for the instruction sets that matter and picked by the loader (ifunc): the
// library itself is built for plain x86-64. Sanitizers instrument resolvers before they are ready.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && \
    !defined(__clang__)
#define CTXGEN_SIMD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CTXGEN_SIMD_CLONES
#endif

namespace ctxgen::onednn {

/// What parallel_for() takes as `elements` where each takes `steps` more: windows that a file
/// declares multiply beyond 2^63.
[[nodiscard]] inline std::int64_t work_of(std::int64_t elements, std::int64_t steps) {
  std::int64_t work = 0;
  return __builtin_mul_overflow(elements, steps, &work) ? INT64_MAX : work;
}

/// Calls body(i) for i in [0, count), on the OpenMP threads when `elements` is worth their start.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t elements, const Body& body) {
  constexpr std::int64_t kWorthThreads = 32 * 1024;  // a team costs about 5 us, as 20,000 elements
  if (count > 1 && elements >= kWorthThreads && omp_get_max_threads() > 1) {
#pragma omp parallel for schedule(static)
    for (std::int64_t i = 0; i < count; ++i) body(i);
  } else {
    for (std::int64_t i = 0; i < count; ++i) body(i);
  }
}

}  // namespace ctxgen::onednn
