#include "term/time_left.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <format>

namespace ctxgen::cli {

std::string time_left_text(double seconds) {
  constexpr double kMost = 100 * 3600;
  const auto whole = static_cast<std::int64_t>(std::ceil(std::clamp(seconds, 0.0, kMost)));
  if (whole < 100) return std::format("{} s left", whole);
  const std::int64_t minutes = (whole + 59) / 60;
  if (minutes < 100) return std::format("{} min left", minutes);
  return std::format("{} h {} min left", minutes / 60, minutes % 60);
}

std::string TimeLeft::text(double share) const {
  constexpr double kLeastSeconds = 1, kLeastShare = 0.05;
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  const double done = share - done_before_;
  if (elapsed.count() < kLeastSeconds || !(done >= kLeastShare) || share >= 1) return {};
  return time_left_text(elapsed.count() * (1 - share) / done);
}

}  // namespace ctxgen::cli
