#pragma once

#include <memory>
#include <vector>

#include "plan/plan.h"
#include "rules/index_maps.h"

namespace ctxgen::onednn {

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
