#pragma once

#include <algorithm>
#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::kernels {

[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return (value + by - 1) / by;
}

/// Positions of the kernel, [first, end), that lie in an image of `size` pixels for the window that begins at pixel
/// `begin`.
struct Positions {
  std::int64_t first, end;
  bool operator==(const Positions&) const = default;
  [[nodiscard]] std::int64_t count() const { return std::max<std::int64_t>(end - first, 0); }
};
[[nodiscard]] inline Positions positions(std::int64_t begin, std::int64_t size, std::int64_t kernel,
                                         std::int64_t dilation) {
  if (begin >= 0 && begin + (kernel - 1) * dilation < size)
    return {0, kernel};  // most do not divide
  const std::int64_t first = begin < 0 ? (-begin + dilation - 1) / dilation : 0;
  const std::int64_t end = begin >= size ? 0 : (size - begin + dilation - 1) / dilation;
  return {std::min(first, kernel), std::min(end, kernel)};
}

/// Neighbouring results along an axis, [first, end), whose windows cover the same positions of the kernel.
struct Stretch {
  std::int64_t first, end;
  Positions covered;
  [[nodiscard]] std::int64_t count() const { return end - first; }
};

/// The stretch that begins at `first`, up to `end` at most.
[[nodiscard]] inline Stretch stretch(const Windows& w, std::size_t axis, std::int64_t first,
                                     std::int64_t end) {
  const auto covered = [&](std::int64_t at) {
    return positions(at * w.stride[axis] - w.pad[axis], w.size[axis], w.kernel[axis],
                     w.dilation[axis]);
  };
  Stretch found{first, first + 1, covered(first)};
  if (found.covered == Positions{0, w.kernel[axis]}) {
    const std::int64_t last =
        w.size[axis] - 1 + w.pad[axis] - (w.kernel[axis] - 1) * w.dilation[axis];
    found.end = std::min(last / w.stride[axis] + 1, end);
  } else {
    while (found.end < end && covered(found.end) == found.covered) ++found.end;
  }
  return found;
}

}  // namespace ctxgen::kernels
