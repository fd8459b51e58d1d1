#include <algorithm>
#include <cmath>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "tensors/map_elements.h"

// Operators that ONNX had as experiments and dropped, and that ONNX Runtime still runs: converters of
// Core ML and Keras models wrote them into the default domain.

namespace ctxgen::cpu {
namespace {

KernelResult make_affine(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f), beta = node.float_or("beta", 0.0f);
  return map_kernel<RealTypes>([alpha, beta](auto x) { return alpha * x + beta; });
}

KernelResult make_parametric_softplus(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f), beta = node.float_or("beta", 1.0f);
  return map_kernel<RealTypes>([alpha, beta](auto x) {
    const double y = beta * x;  // log(1 + exp(y)) without overflow
    return alpha * (std::max(y, 0.0) + std::log1p(std::exp(-std::abs(y))));
  });
}

KernelResult make_scale(const Node& node) {
  const double scale = node.float_or("scale", 1.0f);
  return map_kernel<RealTypes>([scale](auto x) { return scale * x; });
}

KernelResult make_scaled_tanh(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f), beta = node.float_or("beta", 1.0f);
  return map_kernel<RealTypes>([alpha, beta](auto x) { return alpha * std::tanh(beta * x); });
}

// x * scale + bias of the channel.
KernelResult make_image_scaler(const Node& node) {
  const double scale = node.float_or("scale", 1.0f);
  const std::vector<float> bias = floats_or_empty(node, "bias");
  return kernel([scale, bias](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 4, 4));
    const Dims& dims = input->dims();
    if (dims[1] != static_cast<std::int64_t>(bias.size()))
      return fail(ErrorCode::kInvalidGraph, "bias has {} values, the input {} channels",
                  bias.size(), dims[1]);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    return dispatch(RealTypes{}, input->type(), [&]<class T>() -> Status {
      const T* from = data_of<T>(*input);
      T* to = mutable_data_of<T>(*output);
      const std::int64_t image = dims[2] * dims[3];
      for (std::int64_t plane = 0; plane < dims[0] * dims[1]; ++plane)
        for (std::int64_t i = plane * image; i < (plane + 1) * image; ++i)
          to[i] = store<T>(static_cast<double>(load(from[i])) * scale +
                           bias[static_cast<std::size_t>(plane % dims[1])]);
      return {};
    });
  });
}

// Border: left, top, right, bottom; with `scale` (height, width) the last two do not count.
KernelResult make_crop(const Node& node) {
  const auto border = ints_or(node, "border", {}), scale = ints_or(node, "scale", {});
  if (border.size() != 4 || (!scale.empty() && scale.size() != 2))
    return fail(ErrorCode::kInvalidGraph,
                "{}: border has {} values, expected 4, scale {}, expected 2", node.describe(),
                border.size(), scale.size());
  return kernel([border, scale](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(require_whole_bytes(*input));
    CTXGEN_CHECK(expect_rank(*input, "input", 4, 4));
    const std::int64_t height = input->dims()[2], width = input->dims()[3];
    const auto inside = [](std::int64_t value, std::int64_t most) {
      return value >= 0 && value <= most;
    };
    if (!inside(border[0], width) || !inside(border[1], height))
      return fail(ErrorCode::kInvalidGraph, "border {} {} is outside of {}", border[0], border[1],
                  to_string(input->dims()));
    const std::int64_t rows_left = height - border[1], columns_left = width - border[0];
    const std::int64_t bottom = scale.empty() ? border[3] : 0,
                       right = scale.empty() ? border[2] : 0;
    if (!inside(bottom, rows_left) || !inside(right, columns_left))
      return fail(ErrorCode::kInvalidGraph, "border {} {} is outside of {}", right, bottom,
                  to_string(input->dims()));
    const std::int64_t rows = scale.empty() ? rows_left - bottom : scale[0];
    const std::int64_t columns = scale.empty() ? columns_left - right : scale[1];
    if (!inside(rows, rows_left) || !inside(columns, columns_left))
      return fail(ErrorCode::kInvalidGraph, "scale {} {} does not fit into {}", rows, columns,
                  to_string(input->dims()));
    Tensor* output = CTXGEN_TRY(
        context.make_output(0, input->type(), {input->dims()[0], input->dims()[1], rows, columns}));
    const std::int64_t planes = input->dims()[0] * input->dims()[1];
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t row = 0; row < rows; ++row)
        copy_elements(*input, (plane * height + border[1] + row) * width + border[0], *output,
                      (plane * rows + row) * columns, columns);
    return {};
  });
}

constexpr OpRow kExperimentalRows[] = {
    {kOnnx, "Affine", 1, 1, make_affine, "floats; dropped from ONNX"},
    {kOnnx, "Crop", 1, 1, make_crop, "all types of whole bytes; dropped from ONNX"},
    {kOnnx, "ImageScaler", 1, 1, make_image_scaler, "floats; dropped from ONNX"},
    {kOnnx, "ParametricSoftplus", 1, 1, make_parametric_softplus, "floats; dropped from ONNX"},
    {kOnnx, "Scale", 1, 1, make_scale, "floats; dropped from ONNX"},
    {kOnnx, "ScaledTanh", 1, 1, make_scaled_tanh, "floats; dropped from ONNX"},
};

}  // namespace

constinit const std::span<const OpRow> kExperimentalOps = kExperimentalRows;

}  // namespace ctxgen::cpu
