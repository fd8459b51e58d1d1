#include "numbers/interpolation.h"

#include <algorithm>
#include <cmath>

namespace ctxgen::cpu {
namespace {

// Mirrors x at both borders until it is between them.
double reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  double distance = std::fmod(std::abs(x - low), 2 * range);
  if (distance > range) distance = 2 * range - distance;
  return low + distance;
}

double reflected(double x, std::int64_t extent, bool align_corners) {
  const double margin = align_corners ? 0 : 0.5;
  return reflect(x, -margin, static_cast<double>(extent - 1) + margin);
}

std::int64_t tap_index(std::int64_t i, std::int64_t extent, const TapRule& rule) {
  if (i >= 0 && i < extent) return i;
  if (rule.outside == Outside::kZeros) return -1;
  if (rule.outside == Outside::kBorder) return std::clamp<std::int64_t>(i, 0, extent - 1);
  const double x = reflected(static_cast<double>(i), extent, rule.align_corners);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(x), 0, extent - 1);
}

// Keys' cubic convolution with a = -0.75.
std::array<double, 4> cubic_weights(double t) {
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

}  // namespace

Taps taps_at(double x, std::int64_t extent, const TapRule& rule) {
  Taps taps;
  if (!std::isfinite(x)) return taps;
  if (rule.interpolation == Interpolation::kNearest) x = std::nearbyint(x);
  const double margin = rule.align_corners ? 0 : 0.5;
  const double last = static_cast<double>(extent - 1);
  if (x < -margin || x > last + margin) {
    // Cubic taps beyond the border are moved one by one, as PyTorch and ONNX Runtime do.
    if (rule.outside == Outside::kBorder && rule.interpolation != Interpolation::kCubic)
      x = std::clamp(x, 0.0, last);
    if (rule.outside == Outside::kReflection) x = reflected(x, extent, rule.align_corners);
  }
  x = std::clamp(x, -4.0, last + 4);  // farther ones have no tap inside either
  const double base = std::floor(x);
  const auto first = static_cast<std::int64_t>(base);
  const auto add = [&](std::int64_t i, double weight) {
    taps.index[taps.count] = tap_index(i, extent, rule);
    taps.weight[taps.count++] = weight;
  };
  if (rule.interpolation == Interpolation::kNearest) {
    add(first, 1);
  } else if (rule.interpolation == Interpolation::kLinear) {
    add(first, 1 - (x - base));
    add(first + 1, x - base);
  } else {
    const auto weights = cubic_weights(x - base);
    for (std::int64_t i = 0; i < 4; ++i) add(first - 1 + i, weights[static_cast<std::size_t>(i)]);
  }
  return taps;
}

}  // namespace ctxgen::cpu
