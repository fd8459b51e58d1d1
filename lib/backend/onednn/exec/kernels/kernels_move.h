#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plan/plan.h"
#include "rules/index_maps.h"

namespace ctxgen::onednn {

/// An offset that stands for elements that come from nowhere: they are filled.
inline constexpr std::int64_t kFill = INT64_MIN;

/// An axis of a move: element i of dst, `dst` elements apart, comes from i * src or, if there is a
/// table, from offsets[i] of src. In elements.
struct MoveAxis {
  std::int64_t size = 1;
  std::int64_t src = 0;
  std::int64_t dst = 0;
  std::vector<std::int64_t> offsets;
};

/// dst[sum of i * dst] = src[sum of offsets] over all axes, at most kMaxRank, none of them empty; the
/// lowest bytes of `fill` where an axis says kFill. Elements of 1, 2, 4 or 8 bytes. Keeps at most as
/// many numbers as `axes` has. Args: src, dst, which must not overlap.
///
/// Axes are put in the order of dst, those that continue each other on both sides are merged, and the
/// innermost decides how a row is moved: as contiguous bytes, as a list of runs, with others as a
/// transpose, or by elements.
[[nodiscard]] std::shared_ptr<const Kernel> make_move_kernel(std::vector<MoveAxis> axes,
                                                             std::uint64_t element_bytes,
                                                             std::uint64_t fill = 0);

/// dst[x] = src[map of x], `fill` where a map says -1. One map per dim of dst; strides in elements,
/// those of src belong to the dims that the maps index. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_index_kernel(const std::vector<AxisMap>& maps,
                                                              const Dims& src_strides,
                                                              const Dims& dst_strides, float fill);

/// Linear interpolation of channels-last tensors over their 1 to 3 spatial dims. `taps`: per dim of
/// src [N, C, D1..Dk], the first two are ignored. Args: src, dst.
[[nodiscard]] std::shared_ptr<const Kernel> make_linear_kernel(
    const Dims& src, const Dims& dst, const std::vector<std::vector<LinearTap>>& taps);

}  // namespace ctxgen::onednn
