#pragma once

#include <algorithm>
#include <cstdint>

namespace ctxgen::kernels {

/// What a lane takes of things in order, [first, end).
struct LaneShare {
  std::int64_t first, end;
};

/// Of `count` things: neighbours, as many for each lane, one more for the first ones where these do not divide. Requires
/// 0 <= lane < lanes.
[[nodiscard]] constexpr LaneShare lane_share(std::int64_t count, std::int64_t lanes,
                                             std::int64_t lane) {
  const std::int64_t each = count / lanes, longer = count % lanes;
  const std::int64_t first = lane * each + std::min(lane, longer);
  return {first, first + each + (lane < longer ? 1 : 0)};
}

}  // namespace ctxgen::kernels
