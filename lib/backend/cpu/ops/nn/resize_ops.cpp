#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ctxgen/base/resize_axis.h"

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

namespace ctxgen::cpu {
namespace {

enum class Mode { kNearest, kLinear, kCubic };

struct ResizeParams {
  Mode mode = Mode::kNearest;
  std::string coordinates, nearest, policy;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
  std::optional<std::vector<std::int64_t>> axes;
  std::optional<std::vector<float>> scales_attribute;  // Upsample before opset 9
  std::size_t roi_input = kNoInput, scales_input = kNoInput, sizes_input = kNoInput;
};

/// Where the elements of one output axis come from.
struct AxisSource {
  ScratchVector<std::int64_t> first;  // index of the first tap, may be outside
  std::size_t taps = 0;               // of each element; 0: the first tap as it is
  ScratchVector<double> weights;      // taps for each element
  ScratchVector<bool> outside;        // tf_crop_and_resize: takes the extrapolation value
};

struct AxisPlan : ResizeAxis {
  double roi_start = 0, roi_end = 1;
};

double source_position(const ResizeParams& params, const AxisPlan& axis, double x) {
  if (params.coordinates != "tf_crop_and_resize")
    return ctxgen::source_position(axis, params.coordinates, x);
  const auto in = static_cast<double>(axis.input);
  const double out = axis.scale * in;
  const double extent = (axis.roi_end - axis.roi_start) * (in - 1);
  const double at = out == 1 ? extent / 2 : x * extent / (out - 1);
  return at + axis.roi_start * (in - 1);
}

double cubic(double a, double x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Taps around `at`: a kernel of radius 1 (linear) or 2 (cubic), stretched where it antialiases.
void add_taps(const ResizeParams& params, const AxisPlan& axis, double at, AxisSource& source) {
  const double radius = params.mode == Mode::kLinear ? 1 : 2;
  const double stretch = params.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const auto reach = static_cast<std::int64_t>(std::ceil(radius / stretch));
  const auto left = static_cast<std::int64_t>(std::ceil(at)) - reach;
  source.taps = 2 * static_cast<std::size_t>(reach);
  double sum = 0;
  for (std::int64_t i = left; i < left + 2 * reach; ++i) {
    const double distance = (static_cast<double>(i) - at) * stretch;
    double weight = params.mode == Mode::kLinear ? std::max(0.0, 1 - std::abs(distance))
                                                 : cubic(params.cubic_a, distance);
    if (params.exclude_outside && (i < 0 || i >= axis.input)) weight = 0;
    source.weights.push_back(weight);
    sum += weight;
  }
  if (sum != 0)
    for (double& weight : std::span(source.weights).last(source.taps)) weight /= sum;
  source.first.push_back(left);
}

AxisSource sources_of(const ResizeParams& params, const AxisPlan& axis) {
  AxisSource source;
  for (std::int64_t x = 0; x < axis.output; ++x) {
    double at = source_position(params, axis, static_cast<double>(x));
    const double last = static_cast<double>(axis.input - 1);
    source.outside.push_back(params.coordinates == "tf_crop_and_resize" &&
                             !(at >= 0 && at <= last));
    if (std::isnan(at)) at = 0;  // a region that is not a number is outside
    if (params.mode == Mode::kNearest) {
      // Far outside positions clamp anyway; this keeps the conversion in range.
      source.first.push_back(nearest_index(params.nearest, std::clamp(at, -1.0, last + 1)));
    } else {
      add_taps(params, axis, std::clamp(at, -1e15, 1e15), source);
    }
  }
  return source;
}

/// Where the taps of each element of an axis are, in a row of `inner` values at each place; taps outside
/// are the border's.
ScratchVector<std::int64_t> places_of_taps(const AxisPlan& axis, std::int64_t inner,
                                           const AxisSource& source) {
  ScratchVector<std::int64_t> places(source.weights.size());
  for (std::size_t x = 0; x < source.first.size(); ++x)
    for (std::size_t k = 0; k < source.taps; ++k)
      places[x * source.taps + k] =
          std::clamp<std::int64_t>(source.first[x] + static_cast<std::int64_t>(k), 0,
                                   axis.input - 1) *
          inner;
  return places;
}

void add_row(const double* from, double weight, std::int64_t count, double* row) {
  for (std::int64_t i = 0; i < count; ++i) row[i] += weight * from[i];
}

/// The elements of the innermost axis, from a block of them.
void resample_elements(const double* block, const double* weight, const std::int64_t* place,
                       std::size_t taps, std::span<double> to) {
  for (double& element : to) {
    double sum = 0;
    for (std::size_t k = 0; k < taps; ++k, ++weight, ++place)
      if (*weight != 0) sum += *weight * block[*place];
    element = sum;
  }
}

// One axis of a [outer, extent, inner] block.
ScratchVector<double> resample(const ScratchVector<double>& from, std::int64_t outer,
                               const AxisPlan& axis, std::int64_t inner, const AxisSource& source) {
  ScratchVector<double> to(static_cast<std::size_t>(outer * axis.output * inner), 0.0);
  const auto places = places_of_taps(axis, inner, source);
  double* row = to.data();
  for (std::int64_t o = 0; o < outer; ++o) {
    const double* block = from.data() + o * axis.input * inner;
    const double* weight = source.weights.data();
    const std::int64_t* place = places.data();
    if (inner == 1) {
      resample_elements(block, weight, place, source.taps,
                        {row, static_cast<std::size_t>(axis.output)});
      row += axis.output;
      continue;
    }
    for (std::int64_t x = 0; x < axis.output; ++x, row += inner)
      for (std::size_t k = 0; k < source.taps; ++k, ++weight, ++place)
        if (*weight != 0) add_row(block + *place, *weight, inner, row);
  }
  return to;
}

// Applies f(offset of the output element) to every element that is outside on some axis.
template <class F>
void for_each_outside(const ScratchVector<AxisSource>& sources, const Dims& dims, F f) {
  Dims position(dims.size(), 0);
  const std::int64_t count = element_count(dims);
  for (std::int64_t o = 0; o < count; ++o) {
    for (std::size_t i = 0; i < dims.size(); ++i)
      if (sources[i].outside[static_cast<std::size_t>(position[i])]) {
        f(o);
        break;
      }
    for (std::size_t i = dims.size(); i-- > 0;) {
      if (++position[i] < dims[i]) break;
      position[i] = 0;
    }
  }
}

bool any_outside(const ScratchVector<AxisSource>& sources) {
  return std::ranges::any_of(sources, [](const AxisSource& s) {
    return std::ranges::find(s.outside, true) != s.outside.end();
  });
}

template <class T>
void interpolate(const Tensor& input, const ScratchVector<AxisPlan>& plans,
                 const ScratchVector<AxisSource>& sources, const ResizeParams& params,
                 Tensor& output) {
  const std::span<const T> elements = input.elements<T>();
  ScratchVector<double> values(elements.size());
  std::ranges::transform(elements, values.begin(),
                         [](const T& x) { return static_cast<double>(load(x)); });
  Dims dims = input.dims();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].input == plans[i].output && plans[i].scale == 1 && plans[i].roi_start == 0 &&
        plans[i].roi_end == 1)
      continue;
    values = resample(values, product(dims, 0, i), plans[i], product(dims, i + 1, dims.size()),
                      sources[i]);
    dims[i] = plans[i].output;
  }
  T* to = mutable_data_of<T>(output);
  for (std::size_t i = 0; i < values.size(); ++i) to[i] = store<T>(values[i]);
  if (any_outside(sources))
    for_each_outside(sources, dims,
                     [&](std::int64_t o) { to[o] = store<T>(params.extrapolation); });
}

// Nearest moves elements of any type.
Status pick(const Tensor& input, const ScratchVector<AxisPlan>& plans,
            const ScratchVector<AxisSource>& sources, const ResizeParams& params, Tensor& output) {
  const std::size_t rank = plans.size();
  const Dims strides = strides_of(input.dims());
  CTXGEN_CHECK(dispatch_storage(input.type(), [&]<class T>() -> Status {
    const T* from = data_of<T>(input);
    T* to = mutable_data_of<T>(output);
    Dims position(rank, 0);
    const std::int64_t count = output.element_count();
    for (std::int64_t o = 0; o < count; ++o) {
      std::int64_t offset = 0;
      for (std::size_t i = 0; i < rank; ++i)
        offset += std::clamp<std::int64_t>(sources[i].first[static_cast<std::size_t>(position[i])],
                                           0, plans[i].input - 1) *
                  strides[i];
      to[o] = from[offset];
      for (std::size_t i = rank; i-- > 0;) {
        if (++position[i] < plans[i].output) break;
        position[i] = 0;
      }
    }
    return {};
  }));
  if (!any_outside(sources)) return {};
  return dispatch(NumericTypes{}, input.type(), [&]<class T>() -> Status {
    for_each_outside(sources, output.dims(), [&](std::int64_t o) {
      mutable_data_of<T>(output)[o] = store<T>(params.extrapolation);
    });
    return {};
  });
}

// ---- sizes ----

Result<ScratchVector<double>> numbers_of(const Tensor* tensor) {
  ScratchVector<double> values;
  if (tensor == nullptr) return values;
  CTXGEN_CHECK(dispatch(RealTypes{}, tensor->type(), [&]<class T>() -> Status {
    for (const T& x : tensor->elements<T>()) values.push_back(static_cast<double>(load(x)));
    return {};
  }));
  return values;
}

Status apply_scales(const ScratchVector<double>& scales, const ScratchVector<std::size_t>& axes,
                    ScratchVector<AxisPlan>& plans) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[axes[i]];
    if (!(scales[i] > 0 && scales[i] < 1e9))
      return fail(ErrorCode::kInvalidGraph, "a scale is {}", scales[i]);
    plan.scale = scales[i];
    plan.output = saturated<std::int64_t>(std::floor(static_cast<double>(plan.input) * scales[i]));
  }
  return {};
}

Status apply_sizes(const ScratchVector<std::int64_t>& sizes, const ScratchVector<std::size_t>& axes,
                   const std::string& policy, ScratchVector<AxisPlan>& plans) {
  std::optional<double> common;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    AxisPlan& plan = plans[axes[i]];
    if (sizes[i] < 0 || plan.input == 0)
      return fail(ErrorCode::kInvalidGraph, "cannot resize {} to {}", plan.input, sizes[i]);
    plan.output = sizes[i];
    plan.scale = static_cast<double>(sizes[i]) / static_cast<double>(plan.input);
    common = !common                  ? plan.scale
             : policy == "not_larger" ? std::min(*common, plan.scale)
                                      : std::max(*common, plan.scale);
  }
  if (policy == "stretch" || !common) return {};
  for (std::size_t axis : axes) {
    plans[axis].scale = *common;
    plans[axis].output =
        saturated<std::int64_t>(std::floor(*common * static_cast<double>(plans[axis].input) + 0.5));
  }
  return {};
}

Result<ScratchVector<AxisPlan>> plan_resize(const KernelContext& context,
                                            const ResizeParams& params, const Dims& dims) {
  ScratchVector<AxisPlan> plans;
  for (std::int64_t dim : dims) plans.push_back({{.input = dim, .output = dim}});
  ScratchVector<std::size_t> axes(dims.size());
  std::iota(axes.begin(), axes.end(), std::size_t{0});
  if (params.axes) {
    axes.clear();
    for (std::int64_t axis : *params.axes)
      axes.push_back(CTXGEN_TRY(normalize_axis(axis, dims.size())));
  }
  auto scales = CTXGEN_TRY(numbers_of(optional_input(context, params.scales_input)));
  if (params.scales_attribute)
    scales.assign(params.scales_attribute->begin(), params.scales_attribute->end());
  const Tensor* size_tensor = optional_input(context, params.sizes_input);
  ScratchVector<std::int64_t> sizes;
  if (size_tensor != nullptr) sizes = CTXGEN_TRY(ints_of(*size_tensor));
  const bool by_scale = !scales.empty();
  if ((by_scale ? scales.size() : sizes.size()) != axes.size())
    return fail(ErrorCode::kInvalidGraph, "{} scales and {} sizes for {} axes", scales.size(),
                sizes.size(), axes.size());
  if (by_scale)
    CTXGEN_CHECK(apply_scales(scales, axes, plans));
  else
    CTXGEN_CHECK(apply_sizes(sizes, axes, params.policy, plans));
  if (params.coordinates != "tf_crop_and_resize") return plans;
  const auto roi = CTXGEN_TRY(numbers_of(optional_input(context, params.roi_input)));
  if (roi.size() != 2 * axes.size())
    return fail(ErrorCode::kInvalidGraph, "roi has {} values for {} axes", roi.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    plans[axes[i]].roi_start = roi[i];
    plans[axes[i]].roi_end = roi[i + axes.size()];
  }
  return plans;
}

Status run_resize(KernelContext& context, const ResizeParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const auto plans = CTXGEN_TRY(plan_resize(context, params, input->dims()));
  Dims dims;
  for (const AxisPlan& plan : plans) dims.push_back(plan.output);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  if (output->element_count() == 0) return {};
  if (input->element_count() == 0)
    return fail(ErrorCode::kInvalidGraph, "cannot resize {} to {}", to_string(input->dims()),
                to_string(dims));
  ScratchVector<AxisSource> sources;
  for (const AxisPlan& plan : plans) sources.push_back(sources_of(params, plan));
  if (params.mode == Mode::kNearest) return pick(*input, plans, sources, params, *output);
  return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
    interpolate<T>(*input, plans, sources, params, *output);
    return {};
  });
}

Result<Mode> mode_of(const Node& node) {
  const std::string mode =
      CTXGEN_TRY(one_of(node, "mode", "nearest", {"nearest", "linear", "bilinear", "cubic"}));
  return mode == "nearest" ? Mode::kNearest : mode == "cubic" ? Mode::kCubic : Mode::kLinear;
}

// Opset 10 resized like Upsample: asymmetric, nearest rounds down.
Result<ResizeParams> legacy_params(const Node& node) {
  ResizeParams params;
  params.mode = CTXGEN_TRY(mode_of(node));
  params.coordinates = "asymmetric";
  params.nearest = "floor";
  params.policy = "stretch";
  if (auto scales = floats_or_empty(node, "scales"); !scales.empty())
    params.scales_attribute = std::move(scales);
  else if (node.attribute("height_scale") != nullptr)  // Upsample of opset 1
    params.scales_attribute = {1, 1, node.float_or("height_scale", 1),
                               node.float_or("width_scale", 1)};
  else
    params.scales_input = 1;
  return params;
}

KernelResult make_upsample(const Node& node) {
  const ResizeParams params = CTXGEN_TRY(legacy_params(node));
  return kernel([params](KernelContext& context) { return run_resize(context, params); });
}

KernelResult make_resize(const Node& node) {
  if (node.opset < 11) return make_upsample(node);
  ResizeParams params;
  params.mode = CTXGEN_TRY(mode_of(node));
  params.coordinates = CTXGEN_TRY(
      one_of(node, "coordinate_transformation_mode", "half_pixel",
             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
              "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"}));
  params.nearest = CTXGEN_TRY(one_of(node, "nearest_mode", "round_prefer_floor",
                                     {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  params.policy = CTXGEN_TRY(one_of(node, "keep_aspect_ratio_policy", "stretch",
                                    {"stretch", "not_larger", "not_smaller"}));
  params.cubic_a = node.float_or("cubic_coeff_a", -0.75f);
  params.extrapolation = node.float_or("extrapolation_value", 0.0f);
  params.exclude_outside = node.int_or("exclude_outside", 0) != 0;
  params.antialias = node.int_or("antialias", 0) != 0;
  if (const auto axes = node.ints("axes"))
    params.axes = std::vector<std::int64_t>(axes->begin(), axes->end());
  params.roi_input = 1;
  params.scales_input = 2;
  params.sizes_input = 3;
  return kernel([params](KernelContext& context) { return run_resize(context, params); });
}

constexpr std::string_view kLimits = "nearest: all types; linear, cubic: numeric";

constexpr OpRow kResizeRows[] = {
    {kOnnx, "Resize", 10, 19, make_resize, kLimits},
    {kOnnx, "Upsample", 1, 10, make_upsample, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kResizeOps = kResizeRows;

}  // namespace ctxgen::cpu
