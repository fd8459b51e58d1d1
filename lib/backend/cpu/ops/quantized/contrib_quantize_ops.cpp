#include <algorithm>
#include <cmath>

#include "families.h"
#include "ops/nn/sliding_window.h"
#include "ops/quantized/quantized_tensors.h"
#include "tensors/broadcast.h"

// The QLinear operators of com.microsoft: values are made real, computed, and made 8-bit again.

namespace ctxgen::cpu {
namespace {

template <class T>
ScratchVector<float> reals(const Tensor& tensor, float scale, std::int32_t zero) {
  ScratchVector<float> values;
  values.reserve(static_cast<std::size_t>(tensor.element_count()));
  for (T x : tensor.elements<T>())
    values.push_back(scale * static_cast<float>(static_cast<std::int32_t>(x) - zero));
  return values;
}

Result<ScratchVector<float>> dequantized(const KernelContext& context, std::size_t first) {
  const Tensor* tensor = CTXGEN_TRY(required(context, first));
  const auto q = CTXGEN_TRY(quantization_of(context, first + 1, first + 2, 1));
  ScratchVector<float> values;
  CTXGEN_CHECK(dispatch(ByteTypes{}, tensor->type(), [&]<class T>() -> Status {
    values = reals<T>(*tensor, q.scale(0), q.zero(0));
    return {};
  }));
  return values;
}

// What ONNX Runtime rounds: the steps, or (pools) the steps with the zero point added.
enum class Rounding { kSteps, kWithZero };

Status put_quantized(KernelContext& context, std::size_t scale_index, const Dims& dims,
                     std::span<const float> values, Rounding rounding = Rounding::kSteps) {
  const Tensor* data = CTXGEN_TRY(required(context, 0));
  const auto q = CTXGEN_TRY(quantization_of(context, scale_index, scale_index + 1, 1));
  Tensor* output = CTXGEN_TRY(context.make_output(0, data->type(), dims));
  return dispatch(ByteTypes{}, data->type(), [&]<class T>() -> Status {
    std::ranges::transform(values, mutable_data_of<T>(*output), [&](float x) {
      const float steps = x / q.scale(0);
      if (rounding == Rounding::kSteps) return requantized<T>(steps, q.zero(0));
      return requantized<T>(steps + static_cast<float>(q.zero(0)), 0);
    });
    return {};
  });
}

template <class F>
KernelResult qlinear_binary(F f) {
  return kernel([f](KernelContext& context) -> Status {
    const Tensor* a = CTXGEN_TRY(required(context, 0));
    const Tensor* b = CTXGEN_TRY(required(context, 3, a->type()));
    const auto x = CTXGEN_TRY(dequantized(context, 0));
    const auto y = CTXGEN_TRY(dequantized(context, 3));
    const auto plan = CTXGEN_TRY(plan_broadcast({&a->dims(), &b->dims()}));
    const auto count = checked_element_count(plan.dims);
    if (!count)
      return fail(ErrorCode::kResourceLimit, "the result {} is too large", to_string(plan.dims));
    ScratchVector<float> values(static_cast<std::size_t>(*count));
    for_each_row(plan, [&](const auto& offset, std::int64_t out) {
      combine_row(x.data() + offset[0], plan.row_stride(0), y.data() + offset[1],
                  plan.row_stride(1), values.data() + out, plan.row_length(), f);
    });
    return put_quantized(context, 6, plan.dims, values);
  });
}

KernelResult make_add(const Node&) {
  return qlinear_binary([](float x, float y) { return x + y; });
}
KernelResult make_mul(const Node&) {
  return qlinear_binary([](float x, float y) { return x * y; });
}

template <class F>
KernelResult qlinear_unary(F f) {
  return kernel([f](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    auto values = CTXGEN_TRY(dequantized(context, 0));
    for (float& x : values) x = f(x);
    return put_quantized(context, 3, input->dims(), values);
  });
}

KernelResult make_sigmoid(const Node&) {
  return qlinear_unary([](float x) { return 1 / (1 + std::exp(-x)); });
}
KernelResult make_leaky_relu(const Node& node) {
  return qlinear_unary(
      [alpha = node.float_or("alpha", 0.01f)](float x) { return x < 0 ? alpha * x : x; });
}

// `opset` says which version's axis rule holds: before 13 everything from the axis on is one line.
KernelResult make_softmax(const Node& node) {
  const bool flatten = node.int_or("opset", 13) < 13;
  const std::int64_t axis = node.int_or("axis", flatten ? 1 : -1);
  return kernel([flatten, axis](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
    AxisSplit split = split_at(input->dims(), at);
    if (flatten) split = {split.outer, split.extent * split.inner, 1};
    auto values = CTXGEN_TRY(dequantized(context, 0));
    for (std::int64_t line = 0; line < split.outer * split.inner && split.extent > 0; ++line) {
      float* first =
          values.data() + line / split.inner * split.extent * split.inner + line % split.inner;
      float most = *first;
      double sum = 0;
      for (std::int64_t i = 0; i < split.extent; ++i) most = std::max(most, first[i * split.inner]);
      for (std::int64_t i = 0; i < split.extent; ++i) {
        first[i * split.inner] = std::exp(first[i * split.inner] - most);
        sum += first[i * split.inner];
      }
      for (std::int64_t i = 0; i < split.extent; ++i)
        first[i * split.inner] = static_cast<float>(first[i * split.inner] / sum);
    }
    return put_quantized(context, 3, input->dims(), values);
  });
}

// Averages [N, C, D1..Dk] (or channels last) over windows given per spatial axis.
void average(const ScratchVector<float>& from, std::int64_t batch, std::int64_t channels,
             const Window& window, bool with_padding, bool channels_last,
             ScratchVector<float>& to) {
  const std::size_t rank = window.axes.size();
  const Dims outputs = window.outputs();
  const std::int64_t positions = element_count(outputs);
  Dims inputs;
  for (const WindowAxis& axis : window.axes) inputs.push_back(axis.input);
  const Dims strides = strides_of(inputs);
  const std::int64_t image = element_count(inputs);
  const auto index = [&](std::int64_t n, std::int64_t c, std::int64_t p, std::int64_t size) {
    return static_cast<std::size_t>(channels_last ? (n * size + p) * channels + c
                                                  : (n * channels + c) * size + p);
  };
  for (std::int64_t p = 0; p < positions; ++p) {
    ScratchVector<std::int64_t> offsets{0};
    std::int64_t padded = 1;
    std::int64_t rest = p;
    for (std::size_t i = rank; i-- > 0;) {
      const WindowAxis& axis = window.axes[i];
      const std::int64_t start = rest % axis.output * axis.stride - axis.pad_begin;
      rest /= axis.output;
      ScratchVector<std::int64_t> next;
      std::int64_t counted = 0;
      for (std::int64_t k = 0; k < axis.kernel; ++k) {
        const std::int64_t at = start + k * axis.dilation;
        counted += at < axis.input + axis.pad_end ? 1 : 0;
        if (at >= 0 && at < axis.input)
          for (std::int64_t offset : offsets) next.push_back(offset + at * strides[i]);
      }
      if (__builtin_mul_overflow(padded, counted, &padded)) padded = INT64_MAX;
      offsets = std::move(next);
    }
    const auto count = with_padding ? padded : static_cast<std::int64_t>(offsets.size());
    for (std::int64_t n = 0; n < batch; ++n)
      for (std::int64_t c = 0; c < channels; ++c) {
        // In float as ONNX Runtime, so that ties round alike.
        float sum = 0;
        for (std::int64_t offset : offsets) sum += from[index(n, c, offset, image)];
        to[index(n, c, p, positions)] = count == 0 ? 0 : sum / static_cast<float>(count);
      }
  }
}

// The same dims with channels second.
Dims channels_second(const Dims& dims, bool channels_last) {
  if (!channels_last) return dims;
  Dims result{dims[0], dims.back()};
  for (std::size_t i = 1; i + 1 < dims.size(); ++i) result.push_back(dims[i]);
  return result;
}

Status run_average_pool(KernelContext& context, const WindowAttributes& attributes, bool global,
                        bool with_padding, bool channels_last) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*input, "input", 3));
  const Dims dims = channels_second(input->dims(), channels_last);
  const std::span<const std::int64_t> kernel =
      global ? dims.span().subspan(2) : std::span(attributes.kernel);
  const auto window = CTXGEN_TRY(resolve_window(attributes, dims, kernel));
  Dims result{dims[0]};
  if (!channels_last) result.push_back(dims[1]);
  for (std::int64_t dim : window.outputs()) result.push_back(dim);
  if (channels_last) result.push_back(dims[1]);
  const auto from = CTXGEN_TRY(dequantized(context, 0));
  const auto count = checked_element_count(result);
  if (!count) return fail(ErrorCode::kResourceLimit, "output {} is too large", to_string(result));
  ScratchVector<float> to(*count);
  average(from, dims[0], dims[1], window, with_padding, channels_last, to);
  return put_quantized(context, 3, result, to, Rounding::kWithZero);
}

KernelResult make_average_pool(const Node& node) {
  const auto attributes = CTXGEN_TRY(window_attributes(node));
  return kernel([attributes, with_padding = node.int_or("count_include_pad", 0) != 0,
                 last = node.int_or("channels_last", 0) != 0](KernelContext& context) {
    return run_average_pool(context, attributes, false, with_padding, last);
  });
}

KernelResult make_global_average_pool(const Node& node) {
  return kernel([last = node.int_or("channels_last", 0) != 0](KernelContext& context) {
    return run_average_pool(context, {}, true, false, last);
  });
}

constexpr std::string_view kLimits = "int8, uint8";

constexpr OpRow kContribQuantizeRows[] = {
    {kMicrosoft, "QLinearAdd", 1, 1, make_add, kLimits},
    {kMicrosoft, "QLinearAveragePool", 1, 1, make_average_pool, kLimits},
    {kMicrosoft, "QLinearGlobalAveragePool", 1, 1, make_global_average_pool, kLimits},
    {kMicrosoft, "QLinearLeakyRelu", 1, 1, make_leaky_relu, kLimits},
    {kMicrosoft, "QLinearMul", 1, 1, make_mul, kLimits},
    {kMicrosoft, "QLinearSigmoid", 1, 1, make_sigmoid, kLimits},
    {kMicrosoft, "QLinearSoftmax", 1, 1, make_softmax, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kContribQuantizeOps = kContribQuantizeRows;

}  // namespace ctxgen::cpu
