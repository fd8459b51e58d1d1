#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace ctxgen {

/// One axis of ONNX's Resize.
struct ResizeAxis {
  std::int64_t input = 0, output = 0;  // elements
  double scale = 1;
};

/// Where element `x` of the result is on the axis of the source, in elements, by the operator's
/// coordinate_transformation_mode; a mode that is not known is half_pixel. Not for
/// tf_crop_and_resize, which needs a region.
[[nodiscard]] inline double source_position(const ResizeAxis& axis, std::string_view coordinates,
                                            double x) {
  const auto in = static_cast<double>(axis.input);
  const double exact_out = axis.scale * in;
  if (coordinates == "align_corners") return exact_out == 1 ? 0 : x * (in - 1) / (exact_out - 1);
  if (coordinates == "asymmetric") return x / axis.scale;
  if (coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (coordinates == "pytorch_half_pixel" && exact_out == 1) return -0.5;
  const double centred = (x + 0.5) / axis.scale - 0.5;
  if (coordinates == "half_pixel_symmetric")
    return centred + in / 2 * (1 - static_cast<double>(axis.output) / exact_out);
  return centred;
}

/// The element that stands for the position, by the operator's nearest_mode; a mode that is not known
/// is round_prefer_floor. It may be outside of the axis. Requires  |at| < 2^62.
[[nodiscard]] inline std::int64_t nearest_index(std::string_view mode, double at) {
  const double below = std::floor(at);
  const double rest = at - below;
  const bool up = mode == "ceil"                ? rest > 0
                  : mode == "floor"             ? false
                  : mode == "round_prefer_ceil" ? rest >= 0.5
                                                : rest > 0.5;
  return static_cast<std::int64_t>(below) + (up ? 1 : 0);
}

}  // namespace ctxgen
