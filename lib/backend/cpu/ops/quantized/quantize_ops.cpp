#include <algorithm>
#include <cmath>
#include <limits>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"
#include "numbers/float8.h"
#include "ops/quantized/quantized_tensors.h"

namespace ctxgen::cpu {
namespace {

// ---- scales: one for all, one per slice of an axis, or one per block along an axis ----

struct ScaleLayout {
  std::int64_t outer = 1, extent = 1, inner = 1;
  std::int64_t block = 0;        // elements of the axis per scale; 0: one scale for all
  std::int64_t scale_count = 1;  // per outer and inner (blocks), or along the axis
  bool blocked = false;
  [[nodiscard]] std::int64_t index(std::int64_t o, std::int64_t k, std::int64_t i) const {
    if (block == 0) return 0;
    if (!blocked) return k;
    return (o * scale_count + k / block) * inner + i;
  }
};

Result<ScaleLayout> scale_layout(const Dims& data, const Tensor& scale, std::int64_t axis,
                                 std::int64_t block_size) {
  ScaleLayout layout;
  if (block_size == 0 && scale.element_count() == 1) {
    layout.extent = element_count(data);
    return layout;
  }
  const std::size_t at = CTXGEN_TRY(normalize_axis(axis, data.size()));
  const AxisSplit split = split_at(data, at);
  layout = {.outer = split.outer,
            .extent = split.extent,
            .inner = split.inner,
            .block = 1,
            .scale_count = split.extent};
  Dims expected = data;
  if (block_size == 0) {
    expected = {data[at]};
  } else if (block_size < 0) {
    return fail(ErrorCode::kInvalidGraph, "block_size is {}", block_size);
  } else {
    layout.blocked = true;
    layout.block = block_size;
    layout.scale_count = data[at] == 0 ? 0 : (data[at] - 1) / block_size + 1;
    expected[at] = layout.scale_count;
  }
  CTXGEN_CHECK(expect_dims(scale, "scale", expected));
  return layout;
}

// f(element, scale index) for every element.
template <class F>
void for_each_scaled(const ScaleLayout& layout, F f) {
  std::int64_t element = 0;
  for (std::int64_t o = 0; o < layout.outer; ++o)
    for (std::int64_t k = 0; k < layout.extent; ++k)
      for (std::int64_t i = 0; i < layout.inner; ++i) f(element++, layout.index(o, k, i));
}

Result<ScratchVector<float>> floats_of(KernelContext& context, const Tensor& tensor) {
  if (is_small_float(tensor.type()) || is_packed_int(tensor.type())) {
    Tensor wide = CTXGEN_TRY(context.make_tensor(unpacked_type(tensor.type()), tensor.dims()));
    unpack_small(tensor, wide);
    return floats_of(context, wide);
  }
  ScratchVector<float> values;
  CTXGEN_CHECK(dispatch(NumericTypes{}, tensor.type(), [&]<class T>() -> Status {
    values.reserve(static_cast<std::size_t>(tensor.element_count()));
    for (const T& x : tensor.elements<T>()) values.push_back(static_cast<float>(load(x)));
    return {};
  }));
  return values;
}

/// Zero points as integers; zeros where absent (and for float8, whose zero point is 0).
Result<ScratchVector<std::int64_t>> zero_points(KernelContext& context, const Tensor* tensor,
                                                const Tensor& scale) {
  ScratchVector<std::int64_t> values(static_cast<std::size_t>(scale.element_count()), 0);
  if (tensor == nullptr) return values;
  if (tensor->element_count() != scale.element_count())
    return fail(ErrorCode::kInvalidGraph, "zero point {} and scale {} differ in shape",
                to_string(tensor->dims()), to_string(scale.dims()));
  const auto floats = CTXGEN_TRY(floats_of(context, *tensor));
  if (tensor->type() == DataType::kInt32) {
    const auto exact = tensor->elements<std::int32_t>();
    values.assign(exact.begin(), exact.end());
    return values;
  }
  std::ranges::transform(floats, values.begin(), [](float x) {
    return std::isfinite(x) ? saturated<std::int64_t>(x) : std::int64_t{0};
  });
  return values;
}

struct IntRange {
  std::int64_t low = 0, high = 0;
};

Result<IntRange> range_of(DataType type) {
  switch (type) {
    case DataType::kInt8: return IntRange{-128, 127};
    case DataType::kUint8: return IntRange{0, 255};
    case DataType::kInt16: return IntRange{-32768, 32767};
    case DataType::kUint16: return IntRange{0, 65535};
    case DataType::kInt4: return IntRange{-8, 7};
    case DataType::kUint4: return IntRange{0, 15};
    case DataType::kInt2: return IntRange{-2, 1};
    case DataType::kUint2: return IntRange{0, 3};
    default: return fail(ErrorCode::kUnsupported, "quantized type {}", name_of(type));
  }
}

Status write_quantized(KernelContext& context, std::span<const std::int64_t> values,
                       Tensor& output) {
  if (is_packed_int(output.type())) {
    Tensor bytes = CTXGEN_TRY(context.make_tensor(unpacked_type(output.type()), output.dims()));
    for (std::size_t i = 0; i < values.size(); ++i)
      mutable_data_of<std::uint8_t>(bytes)[i] = static_cast<std::uint8_t>(values[i]);
    pack_small(bytes, output, true);
    return {};
  }
  return dispatch(IntTypes{}, output.type(), [&]<class T>() -> Status {
    std::ranges::transform(values, mutable_data_of<T>(output),
                           [](std::int64_t x) { return static_cast<T>(x); });
    return {};
  });
}

// ---- QuantizeLinear ----

struct QuantizeParams {
  std::int64_t axis = 1, block_size = 0, output_type = 0;
  bool saturate = true;
};

std::int64_t quantized(float x, float scale, std::int64_t zero, const IntRange& range) {
  const float steps = std::nearbyint(x / scale);  // halves to even
  if (std::isnan(steps)) return std::clamp(zero, range.low, range.high);
  const double value = static_cast<double>(steps) + static_cast<double>(zero);
  return static_cast<std::int64_t>(
      std::clamp(value, static_cast<double>(range.low), static_cast<double>(range.high)));
}

Status quantize_to_float(KernelContext& context, const ScratchVector<float>& data,
                         const ScratchVector<float>& scales, const ScaleLayout& layout,
                         bool saturate, Tensor& output) {
  Tensor wide = CTXGEN_TRY(context.make_tensor(DataType::kFloat, output.dims()));
  for_each_scaled(layout, [&](std::int64_t e, std::int64_t s) {
    mutable_data_of<float>(wide)[e] =
        data[static_cast<std::size_t>(e)] / scales[static_cast<std::size_t>(s)] +
        0.0f;  // the zero point: -0 becomes 0
  });
  pack_small(wide, output, saturate);
  return {};
}

Status run_quantize(KernelContext& context, const QuantizeParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* scale = CTXGEN_TRY(required(context, 1));
  const Tensor* zero = optional_input(context, 2);
  const DataType type = zero != nullptr           ? zero->type()
                        : params.output_type != 0 ? static_cast<DataType>(params.output_type)
                                                  : DataType::kUint8;
  const auto layout =
      CTXGEN_TRY(scale_layout(input->dims(), *scale, params.axis, params.block_size));
  const auto data = CTXGEN_TRY(floats_of(context, *input));
  const auto scales = CTXGEN_TRY(floats_of(context, *scale));
  if (is_small_float(type)) {
    Tensor* output = CTXGEN_TRY(context.make_output(0, type, input->dims()));
    return quantize_to_float(context, data, scales, layout, params.saturate, *output);
  }
  const IntRange range = CTXGEN_TRY(range_of(type));
  const auto zeros = CTXGEN_TRY(zero_points(context, zero, *scale));
  Tensor* output = CTXGEN_TRY(context.make_output(0, type, input->dims()));
  ScratchVector<std::int64_t> values(data.size());
  for_each_scaled(layout, [&](std::int64_t e, std::int64_t s) {
    const auto at = static_cast<std::size_t>(s);
    values[static_cast<std::size_t>(e)] =
        quantized(data[static_cast<std::size_t>(e)], scales[at], zeros[at], range);
  });
  return write_quantized(context, values, *output);
}

KernelResult make_quantize(const Node& node) {
  const QuantizeParams params{.axis = node.int_or("axis", 1),
                              .block_size = node.int_or("block_size", 0),
                              .output_type = node.int_or("output_dtype", 0),
                              .saturate = node.int_or("saturate", 1) != 0};
  if (params.output_type != 0 && !is_known_data_type(params.output_type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), params.output_type);
  return kernel([params](KernelContext& context) { return run_quantize(context, params); });
}

// ---- DequantizeLinear ----

// Differences of int32 and its zero point are exact only in wider integers.
Result<ScratchVector<double>> offsets_from_zero(KernelContext& context, const Tensor& input,
                                                const Tensor* zero, const Tensor& scale,
                                                const ScaleLayout& layout) {
  const auto zeros = CTXGEN_TRY(zero_points(context, zero, scale));
  ScratchVector<double> values;
  if (input.type() == DataType::kInt32) {
    const auto exact = input.elements<std::int32_t>();
    values.assign(exact.begin(), exact.end());
  } else {
    const auto floats = CTXGEN_TRY(floats_of(context, input));
    values.assign(floats.begin(), floats.end());
  }
  for_each_scaled(layout, [&](std::int64_t e, std::int64_t s) {
    values[static_cast<std::size_t>(e)] -= static_cast<double>(zeros[static_cast<std::size_t>(s)]);
  });
  return values;
}

Status run_dequantize(KernelContext& context, const QuantizeParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* scale = CTXGEN_TRY(required(context, 1));
  if (const Tensor* zero = optional_input(context, 2)) CTXGEN_CHECK(same_type(*input, *zero));
  const auto layout =
      CTXGEN_TRY(scale_layout(input->dims(), *scale, params.axis, params.block_size));
  const auto values =
      CTXGEN_TRY(offsets_from_zero(context, *input, optional_input(context, 2), *scale, layout));
  const auto scales = CTXGEN_TRY(floats_of(context, *scale));
  const DataType type =
      params.output_type != 0 ? static_cast<DataType>(params.output_type) : scale->type();
  Tensor* output = CTXGEN_TRY(context.make_output(0, type, input->dims()));
  return dispatch(RealTypes{}, type, [&]<class T>() -> Status {
    for_each_scaled(layout, [&](std::int64_t e, std::int64_t s) {
      const auto steps = static_cast<float>(values[static_cast<std::size_t>(e)]);
      mutable_data_of<T>(*output)[e] = store<T>(steps * scales[static_cast<std::size_t>(s)]);
    });
    return {};
  });
}

KernelResult make_dequantize(const Node& node) {
  const QuantizeParams params{.axis = node.int_or("axis", 1),
                              .block_size = node.int_or("block_size", 0),
                              .output_type = node.int_or("output_dtype", 0),
                              .saturate = true};
  if (params.output_type != 0 && !is_known_data_type(params.output_type))
    return fail(ErrorCode::kUnsupported, "{}: type number {}", node.describe(), params.output_type);
  return kernel([params](KernelContext& context) { return run_dequantize(context, params); });
}

// ---- DynamicQuantizeLinear ----

KernelResult make_dynamic_quantize(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0, DataType::kFloat));
    const auto [scale, zero] = byte_range_of(input->elements<float>());
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kUint8, input->dims()));
    Tensor* scale_output = CTXGEN_TRY(context.make_output(1, DataType::kFloat, {}));
    Tensor* zero_output = CTXGEN_TRY(context.make_output(2, DataType::kUint8, {}));
    *mutable_data_of<float>(*scale_output) = scale;
    *mutable_data_of<std::uint8_t>(*zero_output) = zero;
    std::uint8_t* to = mutable_data_of<std::uint8_t>(*output);
    for (float x : input->elements<float>())
      *to++ = static_cast<std::uint8_t>(quantized(x, scale, zero, {0, 255}));
    return {};
  });
}

constexpr std::string_view kLimits =
    "int8, uint8, int16, uint16, 4- and 2-bit integers, float8, float4; per tensor, axis, block";

constexpr OpRow kQuantizeRows[] = {
    {kOnnx, "DequantizeLinear", 10, 25, make_dequantize, kLimits},
    {kOnnx, "DynamicQuantizeLinear", 11, 11, make_dynamic_quantize, "float to uint8"},
    {kOnnx, "QuantizeLinear", 10, 25, make_quantize, kLimits},
    {kMicrosoft, "DequantizeLinear", 1, 1, make_dequantize, kLimits},
    {kMicrosoft, "QuantizeLinear", 1, 1, make_quantize, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kQuantizeOps = kQuantizeRows;

}  // namespace ctxgen::cpu
