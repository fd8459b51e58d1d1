#pragma once

#include <cstdint>

#include "ctxgen/base/workers.h"

namespace ctxgen::onednn {

/// What parallel_for() takes as `elements` where each takes `steps` more: windows that a file
/// declares multiply beyond 2^63.
[[nodiscard]] inline std::int64_t work_of(std::int64_t elements, std::int64_t steps) {
  std::int64_t work = 0;
  return __builtin_mul_overflow(elements, steps, &work) ? INT64_MAX : work;
}

/// Of `part` each, which are `whole`.
[[nodiscard]] constexpr std::int64_t parts_of(std::int64_t whole, std::int64_t part) {
  return (whole + part - 1) / part;
}

/// Calls body(i) for i in [0, count), by `workers` where `elements` is worth their start.
template <class Body>
void parallel_for(Workers& workers, std::int64_t count, std::int64_t elements, const Body& body) {
  constexpr std::int64_t kWorthThreads = 32 * 1024;  // a team costs about 5 us, as 20,000 elements
  if (count > 1 && elements >= kWorthThreads) return workers.parallel_for(count, body);
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace ctxgen::onednn
