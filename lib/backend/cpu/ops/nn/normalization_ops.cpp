#include <algorithm>
#include <cmath>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/widen.h"
#include "tensors/broadcast.h"

namespace ctxgen::cpu {
namespace {

// ---- BatchNormalization ----

struct ChannelStats {
  ScratchVector<double> mean, variance;
};

template <class T>
ChannelStats stats_of(const Tensor& input, std::int64_t channels) {
  const std::int64_t batch = input.dims()[0];
  const std::int64_t image = product(input.dims(), 2, input.rank());
  const auto count = static_cast<double>(batch * image);
  ChannelStats stats{ScratchVector<double>(static_cast<std::size_t>(channels)),
                     ScratchVector<double>(static_cast<std::size_t>(channels))};
  const auto each = [&](std::int64_t c, auto f) {
    for (std::int64_t n = 0; n < batch; ++n) {
      const T* from = data_of<T>(input) + (n * channels + c) * image;
      for (std::int64_t i = 0; i < image; ++i) f(static_cast<double>(from[i]));
    }
  };
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    each(c, [&](double x) { sum += x; });
    const double mean = sum / count;
    each(c, [&](double x) { squares += (x - mean) * (x - mean); });
    stats.mean[static_cast<std::size_t>(c)] = mean;
    stats.variance[static_cast<std::size_t>(c)] = squares / count;
  }
  return stats;
}

Result<ScratchVector<double>> doubles_of(const KernelContext& context, std::size_t index,
                                         std::int64_t count) {
  const Tensor* tensor = CTXGEN_TRY(required(context, index));
  if (tensor->element_count() != count)
    return fail(ErrorCode::kInvalidGraph, "input {} has shape {}, expected {} elements", index,
                to_string(tensor->dims()), count);
  ScratchVector<double> values;
  CTXGEN_CHECK(dispatch(FloatTypes{}, tensor->type(), [&]<class T>() -> Status {
    const auto elements = tensor->elements<T>();
    values.assign(elements.begin(), elements.end());
    return {};
  }));
  return values;
}

struct BatchNormParams {
  double epsilon = 1e-5, momentum = 0.9;
  bool training = false;
};

// Writes the running statistics of training mode (opset 14).
Status put_running(KernelContext& context, std::size_t output, std::size_t input,
                   const ScratchVector<double>& current, double momentum) {
  if (!context.output_wanted(output)) return {};
  const Tensor* before = CTXGEN_TRY(required(context, input));
  const auto old = CTXGEN_TRY(doubles_of(context, input, before->element_count()));
  Tensor* running = CTXGEN_TRY(context.make_output(output, before->type(), before->dims()));
  return dispatch(FloatTypes{}, before->type(), [&]<class T>() -> Status {
    for (std::size_t i = 0; i < old.size(); ++i)
      running->mutable_elements<T>()[i] =
          static_cast<T>(old[i] * momentum + current[i] * (1 - momentum));
    return {};
  });
}

Status run_batch_norm(KernelContext& context, const BatchNormParams& params) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*input, "input", 1));
  const std::int64_t channels = input->rank() == 1 ? 1 : input->dims()[1];
  const auto scale = CTXGEN_TRY(doubles_of(context, 1, channels));
  const auto bias = CTXGEN_TRY(doubles_of(context, 2, channels));
  ChannelStats stats;
  stats.mean = CTXGEN_TRY(doubles_of(context, 3, channels));
  stats.variance = CTXGEN_TRY(doubles_of(context, 4, channels));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
  const std::int64_t batch = input->dims()[0];
  const std::int64_t image =
      product(input->dims(), std::min<std::size_t>(2, input->rank()), input->rank());
  CTXGEN_CHECK(dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
    if (params.training) stats = stats_of<T>(*input, channels);
    for (std::int64_t i = 0; i < batch * channels; ++i) {
      const auto c = static_cast<std::size_t>(i % channels);
      const double factor = scale[c] / std::sqrt(stats.variance[c] + params.epsilon);
      const double shift = bias[c] - stats.mean[c] * factor;
      const T* from = data_of<T>(*input) + i * image;
      T* to = mutable_data_of<T>(*output) + i * image;
      for (std::int64_t k = 0; k < image; ++k) to[k] = static_cast<T>(from[k] * factor + shift);
    }
    return {};
  }));
  if (!params.training) return {};
  CTXGEN_CHECK(put_running(context, 1, 3, stats.mean, params.momentum));
  return put_running(context, 2, 4, stats.variance, params.momentum);
}

// Opsets 7 to 13 are in training mode where they have more than one output; `spatial=0` of opsets
// 1 to 8 (statistics per position) and `is_test=0` of 1 to 6 are refused.
KernelResult make_batch_norm(const Node& node) {
  const BatchNormParams params{.epsilon = node.float_or("epsilon", 1e-5f),
                               .momentum = node.float_or("momentum", 0.9f),
                               .training = node.int_or("training_mode", 0) != 0};
  if (node.opset < 9 && node.int_or("spatial", 1) == 0)
    return fail(ErrorCode::kUnsupported, "{}: spatial is 0", node.describe());
  std::size_t outputs = 0;
  for (ValueId id : node.outputs) outputs += id.valid() ? 1 : 0;
  if (node.opset < 14 && outputs > 1)
    return fail(ErrorCode::kUnsupported, "{}: training mode", node.describe());
  return widened_kernel(
      [params](KernelContext& context) { return run_batch_norm(context, params); });
}

// ---- lines normalised to mean 0 and variance 1 ----

struct Moments {
  double mean = 0, inverse = 0;  // inverse standard deviation
};

template <class T>
Moments moments_of(std::span<const T> line, double epsilon) {
  const auto count = static_cast<double>(line.size());
  double sum = 0, squares = 0;
  for (double x : line) sum += x;
  const double mean = sum / count;
  for (double x : line) squares += (x - mean) * (x - mean);
  return {mean, 1 / std::sqrt(squares / count + epsilon)};
}

template <class T>
std::span<const T> line_of(const Tensor& input, std::int64_t index, std::int64_t length) {
  return input.elements<T>().subspan(static_cast<std::size_t>(index * length),
                                     static_cast<std::size_t>(length));
}

KernelResult make_instance_norm(const Node& node) {
  return widened_kernel(
      [epsilon = node.float_or("epsilon", 1e-5f)](KernelContext& context) -> Status {
        const Tensor* input = CTXGEN_TRY(required(context, 0));
        CTXGEN_CHECK(expect_rank(*input, "input", 3));
        const std::int64_t channels = input->dims()[1];
        const auto scale = CTXGEN_TRY(doubles_of(context, 1, channels));
        const auto bias = CTXGEN_TRY(doubles_of(context, 2, channels));
        Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
        const std::int64_t image = product(input->dims(), 2, input->rank());
        return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
          T* to = mutable_data_of<T>(*output);
          for (std::int64_t i = 0; i < input->dims()[0] * channels; ++i) {
            const auto line = line_of<T>(*input, i, image);
            const Moments moments = moments_of(line, epsilon);
            const auto c = static_cast<std::size_t>(i % channels);
            for (double x : line)
              *to++ = static_cast<T>((x - moments.mean) * moments.inverse * scale[c] + bias[c]);
          }
          return {};
        });
      });
}

// Scale and bias are per group in opset 18, per channel since 21.
KernelResult make_group_norm(const Node& node) {
  const std::int64_t groups = node.int_or("num_groups", 0);
  const bool per_group = node.opset < 21;
  const double epsilon = node.float_or("epsilon", 1e-5f);
  return widened_kernel([groups, per_group, epsilon](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 3));
    const std::int64_t channels = input->dims()[1];
    if (groups < 1 || groups > std::max<std::int64_t>(channels, 1) || channels % groups != 0)
      return fail(ErrorCode::kInvalidGraph, "{} channels in {} groups", channels, groups);
    const auto scale = CTXGEN_TRY(doubles_of(context, 1, per_group ? groups : channels));
    const auto bias = CTXGEN_TRY(doubles_of(context, 2, per_group ? groups : channels));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    const std::int64_t image = product(input->dims(), 2, input->rank());
    const std::int64_t per = channels / groups;
    return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
      T* to = mutable_data_of<T>(*output);
      for (std::int64_t i = 0; i < input->dims()[0] * groups; ++i) {
        const auto line = line_of<T>(*input, i, image * per);
        const Moments moments = moments_of(line, epsilon);
        for (std::int64_t k = 0; k < image * per; ++k) {
          const std::int64_t g = i % groups;
          const auto c = static_cast<std::size_t>(per_group ? g : g * per + k / image);
          *to++ = static_cast<T>((line[static_cast<std::size_t>(k)] - moments.mean) *
                                     moments.inverse * scale[c] +
                                 bias[c]);
        }
      }
      return {};
    });
  });
}

// ---- LayerNormalization, RMSNormalization ----

struct LayerNormParams {
  std::int64_t axis = -1;
  double epsilon = 1e-5;
  bool rms = false;
};

Dims statistic_dims(const Dims& dims, std::size_t axis) {
  Dims result = dims;
  for (std::size_t i = axis; i < result.size(); ++i) result[i] = 1;
  return result;
}

// Values of scale or bias for every element of a line; it broadcasts to the normalised axes, and in
// rare models also along others.
template <class T>
Status spread(const Tensor* tensor, const Dims& dims, double otherwise,
              ScratchVector<double>& values) {
  const auto count = static_cast<std::size_t>(element_count(dims));
  values.assign(count, otherwise);
  if (tensor == nullptr) return {};
  if (tensor->type() != kDataTypeOf<T>)
    return fail(ErrorCode::kUnsupported, "scale and data have different types");
  const auto plan = CTXGEN_TRY(plan_broadcast({&dims, &tensor->dims()}));
  if (!(plan.dims == dims))
    return fail(ErrorCode::kInvalidGraph, "{} does not broadcast to {}", to_string(tensor->dims()),
                to_string(dims));
  for_each_row(plan, [&](const auto& offset, std::int64_t out) {
    for (std::int64_t i = 0; i < plan.row_length(); ++i)
      values[static_cast<std::size_t>(out + i)] =
          data_of<T>(*tensor)[offset[1] + i * plan.row_stride(1)];
  });
  return {};
}

template <class T>
Status layer_norm(KernelContext& context, const LayerNormParams& params, std::size_t axis) {
  const Tensor& input = *context.input(0);
  const Tensor* scale_tensor = optional_input(context, 1);
  const Tensor* bias_tensor = params.rms ? nullptr : optional_input(context, 2);
  Dims tail(input.dims().span().subspan(axis));
  for (const Tensor* t : {scale_tensor, bias_tensor})
    if (t != nullptr && t->rank() > tail.size()) tail = input.dims();
  ScratchVector<double> scale, bias;
  CTXGEN_CHECK(spread<T>(scale_tensor, tail, 1, scale));
  CTXGEN_CHECK(spread<T>(bias_tensor, tail, 0, bias));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input.type(), input.dims()));
  const Dims stats = statistic_dims(input.dims(), axis);
  Tensor* mean = nullptr;
  Tensor* inverse = nullptr;
  if (context.output_wanted(1)) mean = CTXGEN_TRY(context.make_output(1, input.type(), stats));
  if (context.output_wanted(2)) inverse = CTXGEN_TRY(context.make_output(2, input.type(), stats));
  const std::int64_t length = product(input.dims(), axis, input.rank());
  T* to = mutable_data_of<T>(*output);
  std::size_t element = 0;
  for (std::int64_t i = 0; i < element_count(stats); ++i) {
    const auto line = line_of<T>(input, i, length);
    Moments moments;
    if (params.rms) {
      double squares = 0;
      for (double x : line) squares += x * x;
      moments.inverse = 1 / std::sqrt(squares / static_cast<double>(length) + params.epsilon);
    } else {
      moments = moments_of(line, params.epsilon);
    }
    if (mean != nullptr) mutable_data_of<T>(*mean)[i] = static_cast<T>(moments.mean);
    if (inverse != nullptr) mutable_data_of<T>(*inverse)[i] = static_cast<T>(moments.inverse);
    for (double x : line) {
      const std::size_t at = element++ % scale.size();
      *to++ = static_cast<T>((x - moments.mean) * moments.inverse * scale[at] + bias[at]);
    }
  }
  return {};
}

KernelResult layer_norm_kernel(const Node& node, bool rms) {
  const LayerNormParams params{
      .axis = node.int_or("axis", -1), .epsilon = node.float_or("epsilon", 1e-5f), .rms = rms};
  return widened_kernel([params](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const std::size_t axis = CTXGEN_TRY(normalize_axis(params.axis, input->rank()));
    return dispatch(FloatTypes{}, input->type(),
                    [&]<class T>() { return layer_norm<T>(context, params, axis); });
  });
}

KernelResult make_layer_norm(const Node& node) { return layer_norm_kernel(node, false); }
KernelResult make_rms_norm(const Node& node) { return layer_norm_kernel(node, true); }

// ---- LRN, LpNormalization, MeanVarianceNormalization ----

struct LrnParams {
  double alpha = 0, beta = 0, bias = 0;
  std::int64_t size = 1;
};

template <class T>
void local_response(const LrnParams& params, const Tensor& input, Tensor& output) {
  const std::int64_t channels = input.dims()[1];
  const std::int64_t image = product(input.dims(), 2, input.rank());
  const std::int64_t before = (params.size - 1) / 2;
  const std::int64_t after = params.size - 1 - before;
  for (std::int64_t n = 0; n < input.dims()[0]; ++n) {
    const T* from = data_of<T>(input) + n * channels * image;
    T* to = mutable_data_of<T>(output) + n * channels * image;
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t i = 0; i < image; ++i) {
        double squares = 0;
        const std::int64_t last = std::min(channels - 1, c + after);
        for (std::int64_t k = std::max<std::int64_t>(0, c - before); k <= last; ++k)
          squares += static_cast<double>(from[k * image + i]) * from[k * image + i];
        const double base = params.bias + params.alpha / static_cast<double>(params.size) * squares;
        to[c * image + i] = static_cast<T>(from[c * image + i] / std::pow(base, params.beta));
      }
  }
}

KernelResult make_lrn(const Node& node) {
  const LrnParams params{.alpha = node.float_or("alpha", 1e-4f),
                         .beta = node.float_or("beta", 0.75f),
                         .bias = node.float_or("bias", 1.0f),
                         .size = node.int_or("size", 0)};
  if (params.size < 1 || params.size > (std::int64_t{1} << 31))
    return fail(ErrorCode::kInvalidGraph, "{}: size is {}", node.describe(), params.size);
  return widened_kernel([params](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "input", 2));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
      local_response<T>(params, *input, *output);
      return {};
    });
  });
}

KernelResult make_lp_norm(const Node& node) {
  const std::int64_t p = node.int_or("p", 2);
  if (p != 1 && p != 2) return fail(ErrorCode::kUnsupported, "{}: p is {}", node.describe(), p);
  return widened_kernel([p, axis = node.int_or("axis", -1)](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const std::size_t at = CTXGEN_TRY(normalize_axis(axis, input->rank()));
    const AxisSplit split = split_at(input->dims(), at);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    return dispatch(FloatTypes{}, input->type(), [&]<class T>() -> Status {
      for (std::int64_t o = 0; o < split.outer * split.inner; ++o) {
        const std::int64_t start = o / split.inner * split.extent * split.inner + o % split.inner;
        const T* from = data_of<T>(*input) + start;
        T* to = mutable_data_of<T>(*output) + start;
        double norm = 0;
        for (std::int64_t i = 0; i < split.extent; ++i) {
          const double x = from[i * split.inner];
          norm += p == 1 ? std::abs(x) : x * x;
        }
        if (p == 2) norm = std::sqrt(norm);
        for (std::int64_t i = 0; i < split.extent; ++i)
          to[i * split.inner] = static_cast<T>(from[i * split.inner] / norm);
      }
      return {};
    });
  });
}

constexpr std::string_view kFloats = "float, double, float16, bfloat16";

constexpr OpRow kNormalizationRows[] = {
    {kOnnx, "BatchNormalization", 1, 15, make_batch_norm, "floats; training from opset 14 on"},
    {kOnnx, "GroupNormalization", 18, 21, make_group_norm, kFloats},
    {kOnnx, "InstanceNormalization", 1, 22, make_instance_norm, kFloats},
    {kOnnx, "LRN", 1, 13, make_lrn, kFloats},
    {kOnnx, "LayerNormalization", 1, 17, make_layer_norm, kFloats},
    {kOnnx, "LpNormalization", 1, 22, make_lp_norm, kFloats},
    {kOnnx, "RMSNormalization", 23, 23, make_rms_norm, kFloats},
    // Not of ONNX, but exporters write it into the default domain, and ONNX Runtime runs it.
    {kOnnx, "SimplifiedLayerNormalization", 1, 1, make_rms_norm, "floats; ONNX Runtime's"},
};

}  // namespace

constinit const std::span<const OpRow> kNormalizationOps = kNormalizationRows;

}  // namespace ctxgen::cpu
