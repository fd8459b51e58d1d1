#include <algorithm>
#include <vector>

#include "families.h"
#include "kernel/widen.h"
#include "numbers/gemm.h"
#include "ops/nn/sliding_window.h"

namespace ctxgen::cpu {
namespace {

struct ConvTransposeParams {
  WindowAttributes window;
  std::vector<std::int64_t> output_padding, output_shape;
  std::int64_t groups = 1;
};

// Here `input` of an axis is the convolution's output: the grid that windows are added to.
struct Transposed {
  ScratchVector<WindowAxis> axes;
  Dims input, output;  // spatial
};

Result<WindowAxis> resolve_axis(const ConvTransposeParams& params,
                                std::span<const std::int64_t> output_shape, std::size_t i,
                                std::size_t spatial, std::int64_t input, std::int64_t kernel) {
  const auto value = [](std::span<const std::int64_t> values, std::size_t at,
                        std::int64_t otherwise) {
    return at < values.size() ? values[at] : otherwise;
  };
  WindowAxis axis;
  axis.input = input;
  axis.kernel = kernel;
  axis.stride = value(params.window.strides, i, 1);
  axis.dilation = value(params.window.dilations, i, 1);
  const std::int64_t extra = value(params.output_padding, i, 0);
  if (extra < 0 || extra > kMaxWindowValue)
    return fail(ErrorCode::kInvalidGraph, "output_padding has {}", extra);
  const std::int64_t whole = (input - 1) * axis.stride + (kernel - 1) * axis.dilation + 1 + extra;
  const std::string& mode = params.window.auto_pad;
  if (!output_shape.empty() || mode.starts_with("SAME")) {
    axis.output = value(output_shape, i, input * axis.stride);
    const std::int64_t total =
        std::max<std::int64_t>(0, whole - std::max<std::int64_t>(axis.output, 0));
    axis.pad_begin = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
  } else {
    axis.pad_begin = mode == "VALID" ? 0 : value(params.window.pads, i, 0);
    const std::int64_t end = mode == "VALID" ? 0 : value(params.window.pads, i + spatial, 0);
    axis.output = whole - axis.pad_begin - end;
  }
  if (axis.output < 0)
    return fail(ErrorCode::kInvalidGraph, "spatial axis {} would have {} outputs", i, axis.output);
  return axis;
}

Result<Transposed> resolve(const ConvTransposeParams& params, const Dims& input,
                           const Dims& weights) {
  if (input.size() < 3 || input.size() != weights.size() || params.groups < 1 ||
      params.groups > std::max<std::int64_t>(input[1], 1) || input[1] != weights[0] ||
      input[1] % params.groups != 0)
    return fail(ErrorCode::kInvalidGraph, "input {} and weights {} do not fit {} groups",
                to_string(input), to_string(weights), params.groups);
  const std::size_t spatial = input.size() - 2;
  std::span<const std::int64_t> shape = params.output_shape;
  if (shape.size() == input.size()) shape = shape.subspan(2);
  for (const std::span<const std::int64_t> list :
       {std::span(params.window.strides), std::span(params.window.dilations),
        std::span(params.output_padding), shape})
    if (!list.empty() && list.size() != spatial)
      return fail(ErrorCode::kInvalidGraph, "an attribute has {} values, expected {}", list.size(),
                  spatial);
  for (const Dims* dims : {&input, &weights})
    for (std::int64_t dim : dims->span().subspan(2))
      if (dim > kMaxWindowValue)
        return fail(ErrorCode::kResourceLimit, "a spatial axis of {} is too long", dim);
  Transposed result;
  for (std::size_t i = 0; i < spatial; ++i) {
    result.axes.push_back(
        CTXGEN_TRY(resolve_axis(params, shape, i, spatial, input[i + 2], weights[i + 2])));
    result.input.push_back(input[i + 2]);
    result.output.push_back(result.axes.back().output);
  }
  return result;
}

// Per kernel element: for every input position the output position that it adds to, or -1.
ScratchVector<std::int64_t> targets_of(const Transposed& shape, std::int64_t tap) {
  const std::size_t rank = shape.axes.size();
  Dims kernel_at(rank, 0);
  for (std::size_t i = rank; i-- > 0;) {
    kernel_at[i] = tap % shape.axes[i].kernel;
    tap /= shape.axes[i].kernel;
  }
  const Dims strides = strides_of(shape.output);
  ScratchVector<std::int64_t> targets(static_cast<std::size_t>(element_count(shape.input)));
  for (std::size_t p = 0; p < targets.size(); ++p) {
    auto rest = static_cast<std::int64_t>(p);
    std::int64_t target = 0;
    for (std::size_t i = rank; i-- > 0;) {
      const WindowAxis& axis = shape.axes[i];
      const std::int64_t at =
          rest % axis.input * axis.stride + kernel_at[i] * axis.dilation - axis.pad_begin;
      rest /= axis.input;
      if (at < 0 || at >= axis.output) target = -1;
      if (target >= 0) target += at * strides[i];
    }
    targets[p] = target;
  }
  return targets;
}

// One image of one group: weights^T x input gives what each input position adds through each kernel
// element; that is added up where it belongs.
template <class T>
void add_group(const Transposed& shape, const ScratchVector<ScratchVector<std::int64_t>>& targets,
               std::int64_t channels_in, std::int64_t channels_out, const T* weights,
               const T* image, double* sums) {
  const auto taps = static_cast<std::int64_t>(targets.size());
  const std::int64_t positions = element_count(shape.input);
  const std::int64_t outputs = element_count(shape.output);
  const std::int64_t rows = channels_out * taps;
  multiply<T>({.m = rows, .n = positions, .k = channels_in}, {weights, 1, rows},
              MatrixPacker<T>{{image, positions, 1}, channels_in, positions},
              [&](std::int64_t row, std::int64_t first, const double* values, std::int64_t count) {
                const auto& to = targets[static_cast<std::size_t>(row % taps)];
                double* channel = sums + row / taps * outputs;
                for (std::int64_t j = 0; j < count; ++j) {
                  const std::int64_t target = to[static_cast<std::size_t>(first + j)];
                  if (target >= 0) channel[target] += values[j];
                }
              });
}

template <class T>
Status conv_transpose(KernelContext& context, const ConvTransposeParams& params,
                      const Transposed& shape, Tensor& output) {
  const Tensor& input = *context.input(0);
  const Tensor& weights = *context.input(1);
  const Tensor* bias = optional_input(context, 2);
  const std::int64_t in = input.dims()[1] / params.groups;
  const std::int64_t out = weights.dims()[1];
  const std::int64_t outputs = element_count(shape.output);
  const std::int64_t positions = element_count(shape.input);
  const std::int64_t taps = product(weights.dims(), 2, weights.rank());
  ScratchVector<ScratchVector<std::int64_t>> targets;
  for (std::int64_t t = 0; t < taps; ++t) targets.push_back(targets_of(shape, t));
  ScratchVector<double> sums(static_cast<std::size_t>(out * outputs));
  T* to = mutable_data_of<T>(output);
  for (std::int64_t i = 0; i < input.dims()[0] * params.groups; ++i) {
    const std::int64_t g = i % params.groups;
    std::ranges::fill(sums, 0.0);
    add_group(shape, targets, in, out, data_of<T>(weights) + g * in * out * taps,
              data_of<T>(input) + i * in * positions, sums.data());
    for (std::int64_t m = 0; m < out; ++m) {
      const double addend = bias == nullptr ? 0 : data_of<T>(*bias)[g * out + m];
      for (std::int64_t p = 0; p < outputs; ++p)
        *to++ = static_cast<T>(sums[static_cast<std::size_t>(m * outputs + p)] + addend);
    }
  }
  return {};
}

Status run_conv_transpose(KernelContext& context, const ConvTransposeParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* weights = CTXGEN_TRY(required(context, 1, input->type()));
  const Tensor* bias = optional_input(context, 2);
  const auto shape = CTXGEN_TRY(resolve(params, input->dims(), weights->dims()));
  const std::int64_t channels = weights->dims()[1] * params.groups;
  if (bias != nullptr) {
    CTXGEN_CHECK(same_type(*input, *bias));
    CTXGEN_CHECK(expect_dims(*bias, "bias", {channels}));
  }
  Dims dims{input->dims()[0], channels};
  for (std::int64_t dim : shape.output) dims.push_back(dim);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
  return dispatch(FloatTypes{}, input->type(),
                  [&]<class T>() { return conv_transpose<T>(context, params, shape, *output); });
}

KernelResult make_conv_transpose(const Node& node) {
  ConvTransposeParams params;
  params.window = CTXGEN_TRY(window_attributes(node));
  params.output_padding = ints_or(node, "output_padding", {});
  params.output_shape = ints_or(node, "output_shape", {});
  params.groups = node.int_or("group", 1);
  for (std::int64_t dim : params.output_shape)
    if (dim < 0 || dim > kMaxWindowValue)
      return fail(ErrorCode::kInvalidGraph, "{}: output_shape has {}", node.describe(), dim);
  return widened_kernel(
      [params](KernelContext& context) { return run_conv_transpose(context, params); });
}

constexpr OpRow kConvTransposeRows[] = {
    {kOnnx, "ConvTranspose", 1, 22, make_conv_transpose, "floats; 1 and more spatial axes"},
};

}  // namespace

constinit const std::span<const OpRow> kConvTransposeOps = kConvTransposeRows;

}  // namespace ctxgen::cpu
