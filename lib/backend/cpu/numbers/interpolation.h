#pragma once

#include <array>
#include <cstdint>
#include <span>

// Interpolation at a fractional position: which elements count, and how much.

namespace ctxgen::cpu {

/// Elements of one axis with their weights. Index -1: outside, counts as zero.
struct Taps {
  std::array<std::int64_t, 4> index{};
  std::array<double, 4> weight{};
  std::size_t count = 0;
};

enum class Interpolation { kNearest, kLinear, kCubic };
enum class Outside { kZeros, kBorder, kReflection };

struct TapRule {
  Interpolation interpolation = Interpolation::kLinear;
  Outside outside = Outside::kZeros;
  bool align_corners = true;  // reflection is at the centres of the outer elements, not their edges
};

/// The taps of position `x` (element i is at i) on an axis of `extent` elements, extent > 0.
/// Positions that are not finite are outside of everything.
[[nodiscard]] Taps taps_at(double x, std::int64_t extent, const TapRule& rule);

/// Sum over the product of the axes' taps of weight * value(offset); strides are the axes'.
template <class F>
[[nodiscard]] double interpolate(std::span<const Taps> axes, std::span<const std::int64_t> strides,
                                 const F& value, std::int64_t offset = 0) {
  if (axes.empty()) return value(offset);
  double sum = 0;
  for (std::size_t i = 0; i < axes[0].count; ++i)
    if (axes[0].index[i] >= 0 && axes[0].weight[i] != 0)
      sum += axes[0].weight[i] * interpolate(axes.subspan(1), strides.subspan(1), value,
                                             offset + axes[0].index[i] * strides[0]);
  return sum;
}

}  // namespace ctxgen::cpu
