#include "rules/index_maps.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ctxgen/base/resize_axis.h"

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

/// The axes of a resize.
struct Scaling {
  std::string coordinates;
  std::vector<ResizeAxis> axes;
};

Result<Scaling> read_scaling(const ProgramOp& op, const Dims& src, const Dims& dst) {
  auto params = CTXGEN_TRY(decode<ResizeParams>(op));
  const std::vector<double>& scales = params.scales;
  Scaling scaling;
  for (std::size_t i = 0; i < src.size(); ++i)
    scaling.axes.push_back({src[i], dst[i],
                            scales.empty()
                                ? static_cast<double>(dst[i]) / static_cast<double>(src[i])
                                : double{static_cast<float>(scales[i])}});
  scaling.coordinates = std::move(params.coordinates);
  return scaling;
}

std::int64_t reflected(std::int64_t at, std::int64_t dim) {
  if (dim == 1) return 0;
  const std::int64_t period = 2 * (dim - 1);
  at %= period;
  if (at < 0) at += period;
  return at < dim ? at : period - at;
}

}  // namespace

Result<std::vector<AxisMap>> pad_maps(const ProgramOp& op, const Dims& src) {
  const auto params = CTXGEN_TRY(decode<PadParams>(op));
  const IntList pads = CTXGEN_TRY(per_dim(op, "pads", params.pads, 2 * src.size(), 0));
  const std::string& mode = params.mode;
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return fail(ErrorCode::kUnsupported, "{}: mode \"{}\"", label(op), mode);
  std::vector<AxisMap> maps;
  for (std::size_t i = 0; i < src.size(); ++i) {
    const std::int64_t dim = src[i], begin = pads[i], end = pads[src.size() + i];
    AxisMap map;
    // What negative pads cut off is not there for the other side to reflect.
    const std::int64_t first = std::max<std::int64_t>(0, -begin);
    const std::int64_t kept = dim - first - std::max<std::int64_t>(0, -end);
    if (kept < 1 && mode != "constant")
      return fail(ErrorCode::kInvalidGraph, "{}: nothing is left of axis {}", label(op), i);
    for (std::int64_t x = 0; x < dim + begin + end; ++x) {
      const std::int64_t at = x - std::max<std::int64_t>(0, begin);
      const bool inside = at >= 0 && at < kept;
      std::int64_t from = inside ? at : -1;
      if (!inside && mode == "edge") from = std::clamp<std::int64_t>(at, 0, kept - 1);
      if (!inside && mode == "reflect") from = reflected(at, kept);
      if (!inside && mode == "wrap") from = (at % kept + kept) % kept;
      map.push_back(from < 0 ? -1 : from + first);
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

Result<std::vector<AxisMap>> tile_maps(const ProgramOp& op, const Dims& src) {
  const auto params = CTXGEN_TRY(decode<TileParams>(op));
  const IntList repeats = CTXGEN_TRY(per_dim(op, "repeats", params.repeats, src.size(), 1));
  std::vector<AxisMap> maps;
  for (std::size_t i = 0; i < src.size(); ++i) {
    AxisMap map;
    for (std::int64_t r = 0; r < repeats[i]; ++r)
      for (std::int64_t x = 0; x < src[i]; ++x) map.push_back(x);
    maps.push_back(std::move(map));
  }
  return maps;
}

Result<AxisMap> gather_map(const ProgramOp& op, std::int64_t length) {
  AxisMap map = CTXGEN_TRY(decode<GatherParams>(op)).indices;
  for (std::int64_t& index : map) {
    if (index < -length || index >= length)
      return fail(ErrorCode::kInvalidGraph, "{}: index {} outside [{}, {})", label(op), index,
                  -length, length);
    if (index < 0) index += length;
  }
  return map;
}

Result<std::vector<AxisMap>> nearest_maps(const ProgramOp& op, const Dims& src, const Dims& dst) {
  const std::string rounding = CTXGEN_TRY(decode<ResizeParams>(op)).nearest;
  const Scaling scaling = CTXGEN_TRY(read_scaling(op, src, dst));
  std::vector<AxisMap> maps;
  for (const ResizeAxis& axis : scaling.axes) {
    AxisMap map;
    for (std::int64_t x = 0; x < axis.output; ++x) {
      const double at = source_position(axis, scaling.coordinates, static_cast<double>(x));
      const double bounded = std::clamp(at, -1.0, static_cast<double>(axis.input));
      map.push_back(std::clamp<std::int64_t>(nearest_index(rounding, bounded), 0, axis.input - 1));
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

Result<std::vector<std::vector<LinearTap>>> linear_taps(const ProgramOp& op, const Dims& src,
                                                        const Dims& dst) {
  const Scaling scaling = CTXGEN_TRY(read_scaling(op, src, dst));
  std::vector<std::vector<LinearTap>> all;
  for (const ResizeAxis& axis : scaling.axes) {
    std::vector<LinearTap> taps;
    const std::int64_t last = axis.input - 1;
    for (std::int64_t x = 0; x < axis.output; ++x) {
      const double at =
          std::clamp(source_position(axis, scaling.coordinates, static_cast<double>(x)), -1.0,
                     static_cast<double>(axis.input));
      const auto below = static_cast<std::int64_t>(std::floor(at));
      taps.push_back({std::clamp<std::int64_t>(below, 0, last),
                      std::clamp<std::int64_t>(below + 1, 0, last),
                      static_cast<float>(at - static_cast<double>(below))});
    }
    all.push_back(std::move(taps));
  }
  return all;
}

}  // namespace ctxgen::onednn
