#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

// Pooling over regions of interest: MaxRoiPool, RoiAlign.

namespace ctxgen::cpu {
namespace {

/// Regions of a hostile model may be as large as numbers go: the work per output is bounded.
constexpr double kMaxSamples = 1 << 20;

struct Bin {
  std::int64_t height = 1, width = 1;
  double scale = 1;
};

Status check_bin(const Node& node, const Bin& bin) {
  constexpr std::int64_t kMost = 1 << 20;
  if (bin.height >= 1 && bin.width >= 1 && bin.height <= kMost && bin.width <= kMost) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: the output is {} x {}", node.describe(), bin.height,
              bin.width);
}

// ---- RoiAlign ----

struct AlignParams {
  Bin bin;
  std::int64_t sampling_ratio = 0;
  bool half_pixel = true, max = false;
};

/// One sample: four elements of the image and their weights.
struct Corner {
  std::array<std::int64_t, 4> at{};
  std::array<double, 4> weight{};
};

Corner corner_of(double y, double x, std::int64_t height, std::int64_t width) {
  Corner corner;
  if (y < -1 || y > static_cast<double>(height) || x < -1 || x > static_cast<double>(width))
    return corner;  // far outside: nothing
  const auto side = [](double v, std::int64_t extent, std::int64_t& low, std::int64_t& high) {
    v = std::clamp(v, 0.0, static_cast<double>(extent - 1));
    low = static_cast<std::int64_t>(v);
    high = std::min(low + 1, extent - 1);
    return v - static_cast<double>(low);
  };
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
  const double v = side(y, height, top, bottom);
  const double u = side(x, width, left, right);
  corner.at = {top * width + left, top * width + right, bottom * width + left,
               bottom * width + right};
  corner.weight = {(1 - v) * (1 - u), (1 - v) * u, v * (1 - u), v * u};
  return corner;
}

/// One axis of a region: where it starts, the size of a bin, samples per bin.
struct Side {
  double start = 0, bin = 0;
  std::int64_t samples = 0;
  [[nodiscard]] double at(std::int64_t i, std::int64_t sample) const {
    return start + static_cast<double>(i) * bin +
           (static_cast<double>(sample) + 0.5) * bin / static_cast<double>(samples);
  }
};

Result<Side> side_of(double low, double high, std::int64_t bins, const AlignParams& params) {
  const double shift = params.half_pixel ? 0.5 : 0;
  const double start = low * params.bin.scale - shift;
  double length = high * params.bin.scale - shift - start;
  if (!params.half_pixel) length = std::max(length, 1.0);
  if (!std::isfinite(start) || !std::isfinite(length))
    return fail(ErrorCode::kInvalidGraph, "a region from {} to {}", low, high);
  const double bin = length / static_cast<double>(bins);
  const double samples = params.sampling_ratio > 0 ? static_cast<double>(params.sampling_ratio)
                                                   : std::max(std::ceil(bin), 0.0);
  if (samples > kMaxSamples)
    return fail(ErrorCode::kResourceLimit, "a region of {} needs {} samples per bin", length,
                samples);
  return Side{start, bin, static_cast<std::int64_t>(samples)};
}

template <class T>
double pooled(const T* plane, std::span<const Corner> corners, bool max) {
  double sum = 0;
  double most = -std::numeric_limits<double>::infinity();
  for (const Corner& corner : corners)
    for (std::size_t i = 0; i < 4; ++i) {
      const double value = corner.weight[i] * static_cast<double>(load(plane[corner.at[i]]));
      sum += value;
      if (value > most || value != value) most = value;
    }
  if (corners.empty()) return 0;
  return max ? most : sum / static_cast<double>(corners.size());
}

template <class T>
Status align_region(const Tensor& x, const T* roi, std::int64_t image, const AlignParams& params,
                    T* to) {
  const std::int64_t height = x.dims()[2];
  const std::int64_t width = x.dims()[3];
  const Side rows =
      CTXGEN_TRY(side_of(static_cast<double>(load(roi[1])), static_cast<double>(load(roi[3])),
                         params.bin.height, params));
  const Side columns =
      CTXGEN_TRY(side_of(static_cast<double>(load(roi[0])), static_cast<double>(load(roi[2])),
                         params.bin.width, params));
  if (static_cast<double>(rows.samples) * static_cast<double>(columns.samples) > kMaxSamples)
    return fail(ErrorCode::kResourceLimit, "a region needs {} x {} samples per bin", rows.samples,
                columns.samples);
  const std::int64_t bins = params.bin.height * params.bin.width;
  ScratchVector<Corner> corners;
  for (std::int64_t i = 0; i < bins; ++i) {
    corners.clear();
    for (std::int64_t r = 0; r < rows.samples; ++r)
      for (std::int64_t c = 0; c < columns.samples; ++c)
        corners.push_back(corner_of(rows.at(i / params.bin.width, r),
                                    columns.at(i % params.bin.width, c), height, width));
    for (std::int64_t channel = 0; channel < x.dims()[1]; ++channel) {
      const T* plane = data_of<T>(x) + (image * x.dims()[1] + channel) * height * width;
      to[channel * bins + i] = store<T>(pooled(plane, corners, params.max));
    }
  }
  return {};
}

Status run_align(KernelContext& context, const AlignParams& params) {
  const Tensor* x = CTXGEN_TRY(required(context, 0));
  const Tensor* rois = CTXGEN_TRY(required(context, 1, x->type()));
  const Tensor* images = CTXGEN_TRY(required(context, 2, DataType::kInt64));
  CTXGEN_CHECK(expect_rank(*x, "X", 4, 4));
  CTXGEN_CHECK(expect_rank(*images, "batch_indices", 1, 1));
  const std::int64_t count = images->dims()[0];
  CTXGEN_CHECK(expect_dims(*rois, "rois", {count, 4}));
  const Dims dims{count, x->dims()[1], params.bin.height, params.bin.width};
  Tensor* output = CTXGEN_TRY(context.make_output(0, x->type(), dims));
  if (output->element_count() == 0) return {};
  if (x->element_count() == 0)
    return fail(ErrorCode::kInvalidGraph, "X {} has nothing to pool", to_string(x->dims()));
  return dispatch(RealTypes{}, x->type(), [&]<class T>() -> Status {
    const std::int64_t size = product(dims, 1, 4);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t image = data_of<std::int64_t>(*images)[i];
      if (image < 0 || image >= x->dims()[0])
        return fail(ErrorCode::kInvalidGraph, "batch index {} is outside of {}", image,
                    x->dims()[0]);
      CTXGEN_CHECK(align_region(*x, data_of<T>(*rois) + 4 * i, image, params,
                                mutable_data_of<T>(*output) + i * size));
    }
    return {};
  });
}

KernelResult make_roi_align(const Node& node) {
  AlignParams params{.bin = {.height = node.int_or("output_height", 1),
                             .width = node.int_or("output_width", 1),
                             .scale = node.float_or("spatial_scale", 1.0f)},
                     .sampling_ratio = node.int_or("sampling_ratio", 0)};
  CTXGEN_CHECK(check_bin(node, params.bin));
  params.max = CTXGEN_TRY(one_of(node, "mode", "avg", {"avg", "max"})) == "max";
  // Before 16 there was no shift by half a pixel.
  const std::string mode = CTXGEN_TRY(one_of(node, "coordinate_transformation_mode",
                                             node.opset >= 16 ? "half_pixel" : "output_half_pixel",
                                             {"half_pixel", "output_half_pixel"}));
  params.half_pixel = mode == "half_pixel";
  return kernel([params](KernelContext& context) { return run_align(context, params); });
}

// ---- MaxRoiPool ----

/// First and last element of each bin along one axis.
ScratchVector<std::pair<std::int64_t, std::int64_t>> bins_of(double low, double high,
                                                             std::int64_t bins, std::int64_t extent,
                                                             double scale) {
  // Regions far outside are as good as just outside: nothing of the image is in them.
  const auto place = [&](double v) {
    const double most = static_cast<double>(extent) * 4 + 4;
    return std::isnan(v * scale) ? 0.0 : std::clamp(std::round(v * scale), -most, most);
  };
  const double start = place(low);
  const double size = std::max(place(high) - start + 1, 1.0) / static_cast<double>(bins);
  const auto edge = [&](double v) {
    return static_cast<std::int64_t>(std::clamp(v + start, 0.0, static_cast<double>(extent)));
  };
  ScratchVector<std::pair<std::int64_t, std::int64_t>> result;
  for (std::int64_t i = 0; i < bins; ++i)
    result.emplace_back(edge(std::floor(static_cast<double>(i) * size)),
                        edge(std::ceil(static_cast<double>(i + 1) * size)));
  return result;
}

template <class T>
void pool_region(const Tensor& x, const T* roi, std::int64_t image, const Bin& bin, T* to) {
  const std::int64_t width = x.dims()[3];
  const auto value = [roi](std::size_t i) { return static_cast<double>(load(roi[i])); };
  const auto rows = bins_of(value(2), value(4), bin.height, x.dims()[2], bin.scale);
  const auto columns = bins_of(value(1), value(3), bin.width, width, bin.scale);
  for (std::int64_t channel = 0; channel < x.dims()[1]; ++channel) {
    const T* plane = data_of<T>(x) + (image * x.dims()[1] + channel) * x.dims()[2] * width;
    for (const auto& [top, bottom] : rows)
      for (const auto& [left, right] : columns) {
        const bool empty = top >= bottom || left >= right;
        double most = empty ? 0 : -std::numeric_limits<double>::infinity();
        for (std::int64_t r = top; r < bottom; ++r)
          for (std::int64_t c = left; c < right; ++c)
            if (const auto element = static_cast<double>(load(plane[r * width + c]));
                element > most || element != element)
              most = element;
        *to++ = store<T>(most);
      }
  }
}

Status run_pool(KernelContext& context, const Bin& bin) {
  const Tensor* x = CTXGEN_TRY(required(context, 0));
  const Tensor* rois = CTXGEN_TRY(required(context, 1, x->type()));
  CTXGEN_CHECK(expect_rank(*x, "X", 4, 4));
  CTXGEN_CHECK(expect_rank(*rois, "rois", 2, 2));
  const std::int64_t count = rois->dims()[0];
  CTXGEN_CHECK(expect_dims(*rois, "rois", {count, 5}));
  const Dims dims{count, x->dims()[1], bin.height, bin.width};
  Tensor* output = CTXGEN_TRY(context.make_output(0, x->type(), dims));
  return dispatch(RealTypes{}, x->type(), [&]<class T>() -> Status {
    for (std::int64_t i = 0; i < count; ++i) {
      const T* roi = data_of<T>(*rois) + 5 * i;
      const auto image = static_cast<double>(load(roi[0]));
      if (!(image >= 0 && image < static_cast<double>(x->dims()[0])))
        return fail(ErrorCode::kInvalidGraph, "batch index {} is outside of {}", image,
                    x->dims()[0]);
      pool_region(*x, roi, static_cast<std::int64_t>(image), bin,
                  mutable_data_of<T>(*output) + i * product(dims, 1, 4));
    }
    return {};
  });
}

KernelResult make_max_roi_pool(const Node& node) {
  const auto shape = ints_or(node, "pooled_shape", {});
  if (shape.size() != 2)
    return fail(ErrorCode::kInvalidGraph, "{}: pooled_shape has {} values, expected 2",
                node.describe(), shape.size());
  const Bin bin{shape[0], shape[1], node.float_or("spatial_scale", 1.0f)};
  CTXGEN_CHECK(check_bin(node, bin));
  return kernel([bin](KernelContext& context) { return run_pool(context, bin); });
}

constexpr OpRow kRoiRows[] = {
    {kOnnx, "MaxRoiPool", 1, 22, make_max_roi_pool, "floats"},
    {kOnnx, "RoiAlign", 10, 22, make_roi_align, "floats; up to 2^20 samples per output"},
};

}  // namespace

constinit const std::span<const OpRow> kRoiOps = kRoiRows;

}  // namespace ctxgen::cpu
