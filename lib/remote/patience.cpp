#include "patience.h"

#include <algorithm>

#include "ctxgen/base/stopwatch.h"

namespace ctxgen {

void Patience::begin() { start_ = std::chrono::steady_clock::now(); }

double Patience::elapsed() const { return seconds_since(start_); }

double Patience::cost(double seconds, std::uint64_t bytes) {
  return std::max(0.0, seconds - static_cast<double>(bytes) / kBytesPerSecond);
}

bool Patience::lasts(std::uint64_t bytes) const {
  if (cancelled_ && cancelled_()) return false;
  return spent_ + cost(elapsed(), bytes) <= limit_;
}

void Patience::end(std::uint64_t bytes) {
  const double seconds = elapsed();
  waited_ += seconds;
  spent_ += cost(seconds, bytes);
}

}  // namespace ctxgen
