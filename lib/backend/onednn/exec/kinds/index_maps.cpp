#include "kinds/index_maps.h"

#include <algorithm>
#include <cmath>

#include "plan/params.h"

namespace ctxgen::onednn {
namespace {

/// One axis of a resize: output element x lies at source_position(x) of the source.
struct Scaling {
  std::string coordinates;
  std::int64_t in = 0, out = 0;
  double scale = 1;
};

double source_position(const Scaling& s, double x) {
  const auto in = static_cast<double>(s.in);
  const double exact_out = s.scale * in;
  if (s.coordinates == "align_corners") return exact_out == 1 ? 0 : x * (in - 1) / (exact_out - 1);
  if (s.coordinates == "asymmetric") return x / s.scale;
  if (s.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / s.scale;
  if (s.coordinates == "pytorch_half_pixel" && exact_out == 1) return -0.5;
  const double centred = (x + 0.5) / s.scale - 0.5;
  if (s.coordinates == "half_pixel_symmetric")
    return centred + in / 2 * (1 - static_cast<double>(s.out) / exact_out);
  return centred;
}

std::int64_t nearest_index(std::string_view mode, double at) {
  const double below = std::floor(at);
  const double rest = at - below;
  const bool up = mode == "ceil"                ? rest > 0
                  : mode == "floor"             ? false
                  : mode == "round_prefer_ceil" ? rest >= 0.5
                                                : rest > 0.5;
  return static_cast<std::int64_t>(below) + (up ? 1 : 0);
}

Result<std::vector<Scaling>> read_scalings(const ProgramOp& op, const Dims& src, const Dims& dst) {
  const auto params = CTXGEN_TRY(decode<ResizeParams>(op));
  const std::vector<double>& scales = params.scales;
  std::vector<Scaling> all;
  for (std::size_t i = 0; i < src.size(); ++i) {
    Scaling s{params.coordinates, src[i], dst[i], 1};
    s.scale = scales.empty() ? static_cast<double>(dst[i]) / static_cast<double>(src[i])
                             : double{static_cast<float>(scales[i])};
    all.push_back(std::move(s));
  }
  return all;
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
  const auto scalings = CTXGEN_TRY(read_scalings(op, src, dst));
  std::vector<AxisMap> maps;
  for (const Scaling& s : scalings) {
    AxisMap map;
    for (std::int64_t x = 0; x < s.out; ++x) {
      const double at = source_position(s, static_cast<double>(x));
      const double bounded = std::clamp(at, -1.0, static_cast<double>(s.in));
      map.push_back(std::clamp<std::int64_t>(nearest_index(rounding, bounded), 0, s.in - 1));
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

Result<std::vector<std::vector<LinearTap>>> linear_taps(const ProgramOp& op, const Dims& src,
                                                        const Dims& dst) {
  const auto scalings = CTXGEN_TRY(read_scalings(op, src, dst));
  std::vector<std::vector<LinearTap>> all;
  for (const Scaling& s : scalings) {
    std::vector<LinearTap> taps;
    const std::int64_t last = s.in - 1;
    for (std::int64_t x = 0; x < s.out; ++x) {
      const double at =
          std::clamp(source_position(s, static_cast<double>(x)), -1.0, static_cast<double>(s.in));
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
