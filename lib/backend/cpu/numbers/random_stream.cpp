#include "numbers/random_stream.h"

#include <atomic>
#include <cmath>
#include <utility>

namespace ctxgen::cpu {

RandomStream::RandomStream(std::optional<std::uint32_t> seed) {
  static std::atomic<std::uint32_t> runs{std::random_device{}()};
  engine_.seed(seed ? *seed : runs.fetch_add(0x9e3779b9u));
}

double RandomStream::uniform() {
  const std::uint64_t high = engine_() >> 5;
  const std::uint64_t low = engine_() >> 6;
  return static_cast<double>((high << 26) | low) / 9007199254740992.0;  // 2^53
}

double RandomStream::normal() {
  if (spare_) return *std::exchange(spare_, std::nullopt);
  for (;;) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double square = x * x + y * y;
    if (square >= 1 || square == 0) continue;
    const double factor = std::sqrt(-2 * std::log(square) / square);
    spare_ = x * factor;
    return y * factor;
  }
}

}  // namespace ctxgen::cpu
