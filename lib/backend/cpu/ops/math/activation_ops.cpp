#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "families.h"
#include "kernel/attributes.h"
#include "tensors/broadcast.h"
#include "tensors/map_elements.h"

namespace ctxgen::cpu {
namespace {

KernelResult make_relu(const Node&) {
  return map_kernel<SignedTypes>([]<class T>(T x) { return x < T(0) ? T(0) : x; });
}

KernelResult make_leaky_relu(const Node& node) {
  const double alpha = node.float_or("alpha", 0.01f);
  return map_kernel<RealTypes>([alpha](auto x) { return x < 0 ? x * alpha : double(x); });
}

KernelResult make_thresholded_relu(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f);
  return map_kernel<RealTypes>([alpha](auto x) { return x > alpha ? x : decltype(x)(0); });
}

KernelResult make_elu(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f);
  return map_kernel<RealTypes>(
      [alpha](auto x) { return x < 0 ? alpha * std::expm1(double(x)) : double(x); });
}

KernelResult make_celu(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f);
  return map_kernel<RealTypes>([alpha](auto x) {
    // In this order a NaN stays one.
    return std::max(double(x), 0.0) + std::min(alpha * std::expm1(double(x) / alpha), 0.0);
  });
}

KernelResult make_selu(const Node& node) {
  const double alpha = node.float_or("alpha", 1.67326319217681884765625f);
  const double gamma = node.float_or("gamma", 1.05070102214813232421875f);
  return map_kernel<RealTypes>(
      [alpha, gamma](auto x) { return x > 0 ? gamma * x : gamma * alpha * std::expm1(double(x)); });
}

KernelResult make_sigmoid(const Node&) {
  return map_kernel<RealTypes>([]<class T>(T x) { return T(1) / (T(1) + std::exp(-x)); });
}

KernelResult make_hard_sigmoid(const Node& node) {
  const double alpha = node.float_or("alpha", 0.2f);
  const double beta = node.float_or("beta", 0.5f);
  return map_kernel<RealTypes>(
      [alpha, beta](auto x) { return std::clamp(alpha * x + beta, 0.0, 1.0); });
}

KernelResult make_hard_swish(const Node&) {
  return map_kernel<RealTypes>([](auto x) { return x * std::clamp(x / 6.0 + 0.5, 0.0, 1.0); });
}

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

KernelResult make_softplus(const Node&) {
  return map_kernel<RealTypes>([](auto x) { return softplus(x); });
}

KernelResult make_softsign(const Node&) {
  return map_kernel<RealTypes>([](auto x) { return x / (1 + std::abs(x)); });
}

KernelResult make_mish(const Node&) {
  return map_kernel<RealTypes>([](auto x) { return x * std::tanh(softplus(x)); });
}

KernelResult make_swish(const Node& node) {
  const double alpha = node.float_or("alpha", 1.0f);
  return map_kernel<RealTypes>([alpha](auto x) { return x / (1 + std::exp(-alpha * x)); });
}

KernelResult make_gelu(const Node& node) {
  const std::string mode = CTXGEN_TRY(one_of(node, "approximate", "none", {"none", "tanh"}));
  if (mode == "tanh")
    return map_kernel<RealTypes>([](auto v) {
      const double x = v;
      const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1 + std::tanh(inner));
    });
  return map_kernel<RealTypes>([](auto v) {
    const double x = v;
    return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  });
}

KernelResult make_shrink(const Node& node) {
  const double bias = node.float_or("bias", 0.0f);
  const double lambd = node.float_or("lambd", 0.5f);
  return map_kernel<NumericTypes>([bias, lambd](auto v) {
    const double x = static_cast<double>(v);
    return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0;
  });
}

// The slope broadcasts one way, to the input. Before opset 7 a slope of one axis belongs to axis 1.
Status run_prelu(KernelContext& context, bool slope_by_channel) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* slope = CTXGEN_TRY(required(context, 1, input->type()));
  Dims slope_dims = slope->dims();
  if (slope_by_channel && slope_dims.size() == 1)
    while (slope_dims.size() + 1 < input->rank()) slope_dims.push_back(1);
  const auto plan = CTXGEN_TRY(plan_broadcast({&input->dims(), &slope_dims}));
  if (!(plan.dims == input->dims()))
    return fail(ErrorCode::kInvalidGraph, "slope {} does not broadcast to {}",
                to_string(slope->dims()), to_string(input->dims()));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), plan.dims));
  return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
    for_each_row(plan, [&](const auto& offset, std::int64_t out) {
      combine_row(data_of<T>(*input) + offset[0], plan.row_stride(0),
                  data_of<T>(*slope) + offset[1], plan.row_stride(1),
                  mutable_data_of<T>(*output) + out, plan.row_length(), [](T x, T s) {
                    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
                      if (x < 0)  // wraps as Mul does
                        return static_cast<T>(static_cast<std::uint64_t>(x) *
                                              static_cast<std::uint64_t>(s));
                    } else if constexpr (!std::is_unsigned_v<T>) {
                      if (load(x) < Compute<T>(0)) return store<T>(load(x) * load(s));
                    }
                    return x;
                  });
    });
    return {};
  });
}

KernelResult make_prelu(const Node& node) {
  return kernel([old = node.opset < 7](KernelContext& context) { return run_prelu(context, old); });
}

// A bound is an attribute before opset 11, a scalar input of the type of the data since then.
template <class T>
Status clip_elements(const Tensor& input, const Tensor* low, const Tensor* high, double least,
                     double most, Tensor& output) {
  using C = Compute<T>;
  const C lowest = std::numeric_limits<C>::has_infinity ? -std::numeric_limits<C>::infinity()
                                                        : std::numeric_limits<C>::lowest();
  const C highest = std::numeric_limits<C>::has_infinity ? std::numeric_limits<C>::infinity()
                                                         : std::numeric_limits<C>::max();
  C from = lowest;
  C to = highest;
  if constexpr (kIsFloating<T>) {
    from = static_cast<C>(least);
    to = static_cast<C>(most);
  }
  if (low != nullptr) from = load(*data_of<T>(*low));
  if (high != nullptr) to = load(*data_of<T>(*high));
  const T* source = data_of<T>(input);
  T* target = mutable_data_of<T>(output);
  const std::int64_t count = input.element_count();
  for (std::int64_t i = 0; i < count; ++i) {
    C x = load(source[i]);
    if (x < from) x = from;
    if (x > to) x = to;  // also where from > to: the rule is min(max(x, low), high)
    target[i] = store<T>(x);
  }
  return {};
}

Status run_clip(KernelContext& context, double least, double most) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const Tensor* low = optional_input(context, 1);
  const Tensor* high = optional_input(context, 2);
  for (const Tensor* bound : {low, high})
    if (bound != nullptr && (bound->type() != input->type() || bound->element_count() != 1))
      return fail(ErrorCode::kInvalidGraph, "a bound is {} of shape {}, expected a scalar {}",
                  name_of(bound->type()), to_string(bound->dims()), name_of(input->type()));
  Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
  return dispatch(NumericTypes{}, input->type(), [&]<class T>() -> Status {
    return clip_elements<T>(*input, low, high, least, most, *output);
  });
}

KernelResult make_clip(const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double least = node.float_or("min", -kInfinity);
  const double most = node.float_or("max", kInfinity);
  return kernel([least, most](KernelContext& context) { return run_clip(context, least, most); });
}

constexpr std::string_view kReal = "float, double, float16, bfloat16";

constexpr OpRow kActivationRows[] = {
    {kOnnx, "Celu", 12, 12, make_celu, kReal},
    {kOnnx, "Clip", 1, 13, make_clip, "numeric"},
    {kOnnx, "Elu", 1, 22, make_elu, kReal},
    {kOnnx, "Gelu", 20, 20, make_gelu, kReal},
    {kOnnx, "HardSigmoid", 1, 22, make_hard_sigmoid, kReal},
    {kOnnx, "HardSwish", 14, 22, make_hard_swish, kReal},
    {kOnnx, "LeakyRelu", 1, 16, make_leaky_relu, kReal},
    {kOnnx, "Mish", 18, 22, make_mish, kReal},
    {kOnnx, "PRelu", 1, 16, make_prelu, "numeric"},
    {kOnnx, "Relu", 1, 14, make_relu, "signed numeric"},
    {kOnnx, "Selu", 1, 22, make_selu, kReal},
    {kOnnx, "Shrink", 9, 9, make_shrink, "numeric"},
    {kOnnx, "Sigmoid", 1, 13, make_sigmoid, kReal},
    {kOnnx, "Softplus", 1, 22, make_softplus, kReal},
    {kOnnx, "Softsign", 1, 22, make_softsign, kReal},
    {kOnnx, "Swish", 24, 24, make_swish, kReal},
    {kOnnx, "ThresholdedRelu", 1, 22, make_thresholded_relu, kReal},
};

}  // namespace

constinit const std::span<const OpRow> kActivationOps = kActivationRows;

}  // namespace ctxgen::cpu
