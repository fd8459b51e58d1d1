#include <algorithm>
#include <array>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/interpolation.h"

// Sampling an image at computed positions: AffineGrid, GridSample.

namespace ctxgen::cpu {
namespace {

// ---- GridSample ----

double denormalized(double n, std::int64_t extent, bool align_corners) {
  const auto size = static_cast<double>(extent);
  return align_corners ? (n + 1) / 2 * (size - 1) : ((n + 1) * size - 1) / 2;
}

Result<Dims> sampled_dims(const Tensor& x, const Tensor& grid) {
  CTXGEN_CHECK(expect_rank(x, "X", 3));
  const std::size_t axes = x.rank() - 2;
  CTXGEN_CHECK(expect_rank(grid, "grid", x.rank(), x.rank()));
  const auto last = static_cast<std::int64_t>(axes);
  if (grid.dims()[0] != x.dims()[0] || grid.dims().back() != last)
    return fail(ErrorCode::kInvalidGraph, "grid {} does not fit X {}", to_string(grid.dims()),
                to_string(x.dims()));
  Dims dims{x.dims()[0], x.dims()[1]};
  for (std::size_t i = 0; i < axes; ++i) dims.push_back(grid.dims()[1 + i]);
  return dims;
}

// The grid names positions in reverse: its last coordinate belongs to the first spatial axis.
template <class T, class G>
void sample(const Tensor& x, const Tensor& grid, const TapRule& rule, Tensor& output) {
  const std::size_t axes = x.rank() - 2;
  const std::span extents = x.dims().span().subspan(2);
  const Dims strides = strides_of(Dims(extents));
  const std::int64_t plane = product(x.dims(), 2, x.rank());
  const std::int64_t points = product(output.dims(), 2, output.rank());
  std::array<Taps, kMaxRank> taps;
  for (std::int64_t n = 0; n < x.dims()[0]; ++n)
    for (std::int64_t p = 0; p < points; ++p) {
      const G* position = data_of<G>(grid) + (n * points + p) * static_cast<std::int64_t>(axes);
      for (std::size_t i = 0; i < axes; ++i)
        taps[i] = taps_at(denormalized(static_cast<double>(load(position[axes - 1 - i])),
                                       extents[i], rule.align_corners),
                          extents[i], rule);
      for (std::int64_t c = 0; c < x.dims()[1]; ++c) {
        const std::int64_t channel = n * x.dims()[1] + c;
        const T* from = data_of<T>(x) + channel * plane;
        mutable_data_of<T>(output)[channel * points + p] = store<T>(
            interpolate(std::span(taps).first(axes), strides.span(),
                        [from](std::int64_t at) { return static_cast<double>(load(from[at])); }));
      }
    }
}

Status run_grid_sample(KernelContext& context, const TapRule& rule) {
  const Tensor* x = CTXGEN_TRY(required(context, 0));
  const Tensor* grid = CTXGEN_TRY(required(context, 1));
  const Dims dims = CTXGEN_TRY(sampled_dims(*x, *grid));
  Tensor* output = CTXGEN_TRY(context.make_output(0, x->type(), dims));
  if (output->element_count() == 0) return {};
  if (x->element_count() == 0)
    return fail(ErrorCode::kInvalidGraph, "X {} has nothing to sample", to_string(x->dims()));
  return dispatch(NumericTypes{}, x->type(), [&]<class T>() {
    return dispatch(RealTypes{}, grid->type(), [&]<class G>() -> Status {
      sample<T, G>(*x, *grid, rule, *output);
      return {};
    });
  });
}

KernelResult make_grid_sample(const Node& node) {
  const std::string mode = CTXGEN_TRY(
      one_of(node, "mode", "linear", {"linear", "bilinear", "nearest", "cubic", "bicubic"}));
  const std::string padding =
      CTXGEN_TRY(one_of(node, "padding_mode", "zeros", {"zeros", "border", "reflection"}));
  const TapRule rule{.interpolation = mode == "nearest"          ? Interpolation::kNearest
                                      : mode.ends_with("linear") ? Interpolation::kLinear
                                                                 : Interpolation::kCubic,
                     .outside = padding == "zeros"    ? Outside::kZeros
                                : padding == "border" ? Outside::kBorder
                                                      : Outside::kReflection,
                     .align_corners = node.int_or("align_corners", 0) != 0};
  return kernel([rule](KernelContext& context) { return run_grid_sample(context, rule); });
}

// ---- AffineGrid ----

// Positions of the centres of `extent` elements on an axis from -1 to 1.
double normalized(std::int64_t i, std::int64_t extent, bool align_corners) {
  const auto index = static_cast<double>(i);
  const auto size = static_cast<double>(extent);
  if (align_corners) return extent > 1 ? -1 + 2 * index / (size - 1) : 0;
  return (2 * index + 1) / size - 1;
}

template <class T>
void fill_grid(const Tensor& theta, Tensor& grid, bool align_corners) {
  const std::size_t axes = grid.rank() - 2;
  const auto columns = static_cast<std::int64_t>(axes) + 1;
  const std::int64_t points = product(grid.dims(), 1, grid.rank() - 1);
  T* to = mutable_data_of<T>(grid);
  for (std::int64_t i = 0; i < grid.dims()[0] * points; ++i) {
    const T* matrix = data_of<T>(theta) + i / points * static_cast<std::int64_t>(axes) * columns;
    std::array<double, 4> position{};  // (x, y[, z], 1)
    position[axes] = 1;
    std::int64_t rest = i % points;
    for (std::size_t a = 0; a < axes; ++a) {
      const std::int64_t extent = grid.dims()[axes - a];
      position[a] = normalized(rest % extent, extent, align_corners);
      rest /= extent;
    }
    for (std::size_t row = 0; row < axes; ++row) {
      double sum = 0;
      for (std::size_t c = 0; c <= axes; ++c)
        sum +=
            static_cast<double>(load(
                matrix[static_cast<std::int64_t>(row) * columns + static_cast<std::int64_t>(c)])) *
            position[c];
      *to++ = store<T>(sum);
    }
  }
}

KernelResult make_affine_grid(const Node& node) {
  return kernel([align = node.int_or("align_corners", 0) != 0](KernelContext& context) -> Status {
    const Tensor* theta = CTXGEN_TRY(required(context, 0));
    const Tensor* size_tensor = CTXGEN_TRY(required(context, 1));
    const auto size = CTXGEN_TRY(ints_of(*size_tensor));
    if (size.size() != 4 && size.size() != 5)
      return fail(ErrorCode::kInvalidGraph, "size has {} values, expected 4 or 5", size.size());
    if (std::ranges::any_of(size, [](std::int64_t dim) { return dim < 0; }))
      return fail(ErrorCode::kInvalidGraph, "size has a negative value");
    const auto axes = static_cast<std::int64_t>(size.size()) - 2;
    CTXGEN_CHECK(expect_dims(*theta, "theta", {size[0], axes, axes + 1}));
    Dims dims{size[0]};
    for (std::size_t i = 2; i < size.size(); ++i) dims.push_back(size[i]);
    dims.push_back(axes);
    Tensor* grid = CTXGEN_TRY(context.make_output(0, theta->type(), dims));
    return dispatch(RealTypes{}, theta->type(), [&]<class T>() -> Status {
      fill_grid<T>(*theta, *grid, align);
      return {};
    });
  });
}

constexpr OpRow kSamplingRows[] = {
    {kOnnx, "AffineGrid", 20, 20, make_affine_grid, "floats; 2 and 3 spatial dims"},
    {kOnnx, "GridSample", 16, 22, make_grid_sample, "X numeric, grid floats; any rank"},
};

}  // namespace

constinit const std::span<const OpRow> kSamplingOps = kSamplingRows;

}  // namespace ctxgen::cpu
