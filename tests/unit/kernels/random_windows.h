#pragma once

#include <cstdint>

#include "ctxgen/kernels/product.h"

namespace ctxgen::test {

/// The largest kernel, size and so on of an axis of random windows; `after`: of padding after the image.
struct WindowLimits {
  std::int64_t kernel, size, stride, dilation, pad, after;
};

/// Chooses both axes of windows, by numbers in [0, most] that `up_to(most)` gives. Padding may be more than the kernel: windows
/// that hold nothing of the image. There may be no result.
template <class UpTo>
void choose_axes(kernels::Windows& w, const WindowLimits& limits, const UpTo& up_to) {
  for (const std::size_t axis : {0U, 1U}) {
    w.kernel[axis] = 1 + up_to(limits.kernel - 1);
    w.size[axis] = 1 + up_to(limits.size - 1);
    w.stride[axis] = 1 + up_to(limits.stride - 1);
    w.dilation[axis] = 1 + up_to(limits.dilation - 1);
    w.pad[axis] = up_to(limits.pad);
    const std::int64_t span = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
    const std::int64_t room = w.size[axis] + w.pad[axis] + up_to(limits.after) - span;
    w.result[axis] = room < 0 ? 0 : room / w.stride[axis] + 1;
  }
}

}  // namespace ctxgen::test
