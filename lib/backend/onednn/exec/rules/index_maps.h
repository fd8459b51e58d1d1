#pragma once

#include <cstdint>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen::onednn {

/// For one axis of a result: the index along the source's axis that each element comes from, -1
/// where it comes from nowhere (padding).
using AxisMap = std::vector<std::int64_t>;

/// The maps of pad, tile and nearest resize: one per dim of src. Errors  INVALID_GRAPH.
[[nodiscard]] Result<std::vector<AxisMap>> pad_maps(const ProgramOp& op, const Dims& src);
[[nodiscard]] Result<std::vector<AxisMap>> tile_maps(const ProgramOp& op, const Dims& src);
[[nodiscard]] Result<std::vector<AxisMap>> nearest_maps(const ProgramOp& op, const Dims& src,
                                                        const Dims& dst);
/// The map of a gather along its axis. Errors  INVALID_GRAPH (an index outside the axis).
[[nodiscard]] Result<AxisMap> gather_map(const ProgramOp& op, std::int64_t length);

/// One element of a linear interpolation: first * (1 - weight) + second * weight.
struct LinearTap {
  std::int64_t first = 0, second = 0;
  float weight = 0;
};
[[nodiscard]] Result<std::vector<std::vector<LinearTap>>> linear_taps(const ProgramOp& op,
                                                                      const Dims& src,
                                                                      const Dims& dst);

}  // namespace ctxgen::onednn
