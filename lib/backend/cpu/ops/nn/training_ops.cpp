#include <cmath>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

// ai.onnx.preview.training: steps of optimisers. Gradient needs automatic differentiation and has no
// kernel.

namespace ctxgen::cpu {
namespace {

/// Runs step(values of the states) per element: the inputs after R and T are, for n tensors, n of
/// each of `inputs` kinds; the outputs n of each of `outputs` kinds. step changes the first
/// `outputs` values, which stand for X, V, H in their order with G moved last.
template <class T, class Step>
Status for_each_state(KernelContext& context, std::size_t inputs, const Step& step) {
  const std::size_t count = (context.input_count() - 2) / inputs;
  const std::size_t outputs = inputs - 1;  // all but the gradient
  if (context.input_count() != 2 + count * inputs || context.output_count() != count * outputs)
    return fail(ErrorCode::kInvalidGraph, "{} inputs and {} outputs", context.input_count(),
                context.output_count());
  for (std::size_t n = 0; n < count; ++n) {
    const Tensor* x = CTXGEN_TRY(required(context, 2 + n, kElementTypeOf<T>));
    ScratchVector<const T*> from;  // X, the accumulated ones, then G
    ScratchVector<T*> to;
    for (std::size_t kind = 0; kind < inputs; ++kind) {
      const std::size_t source = kind == 0 ? 0 : kind + 1 < inputs ? kind + 1 : 1;
      const Tensor* tensor =
          CTXGEN_TRY(required(context, 2 + source * count + n, kElementTypeOf<T>));
      CTXGEN_CHECK(expect_dims(*tensor, "a tensor of the optimiser's state", x->dims()));
      from.push_back(data_of<T>(*tensor));
    }
    for (std::size_t kind = 0; kind < outputs; ++kind) {
      Tensor* output =
          CTXGEN_TRY(context.make_output(kind * count + n, kElementTypeOf<T>, x->dims()));
      to.push_back(mutable_data_of<T>(*output));
    }
    ScratchVector<double> values(inputs);
    for (std::int64_t i = 0; i < x->element_count(); ++i) {
      for (std::size_t k = 0; k < inputs; ++k) values[k] = static_cast<double>(from[k][i]);
      step(values);
      for (std::size_t k = 0; k < outputs; ++k) to[k][i] = static_cast<T>(values[k]);
    }
  }
  return {};
}

/// Learning rate and update count, then the states by the type of the first tensor.
template <class Make>
Status run_steps(KernelContext& context, std::size_t inputs, const Make& make_step) {
  const Tensor* rate_tensor = CTXGEN_TRY(required(context, 0));
  const Tensor* count_tensor = CTXGEN_TRY(required(context, 1));
  const double rate = CTXGEN_TRY(scalar_of(*rate_tensor));
  const auto count = static_cast<double>(CTXGEN_TRY(scalar_int_of(*count_tensor)));
  const Tensor* first = CTXGEN_TRY(required(context, 2));
  return dispatch(FloatTypes{}, first->type(), [&]<class T>() {
    return for_each_state<T>(context, inputs, make_step(rate, count));
  });
}

KernelResult make_adagrad(const Node& node) {
  const double norm = node.float_or("norm_coefficient", 0.0f);
  const double decay = node.float_or("decay_factor", 0.0f);
  const double epsilon = node.float_or("epsilon", 1e-6f);
  return kernel([=](KernelContext& context) {
    return run_steps(context, 3, [=](double rate, double count) {
      return [=, r = rate / (1 + count * decay)](ScratchVector<double>& v) {
        const double g = norm * v[0] + v[2];
        v[1] += g * g;
        v[0] -= r * g / (std::sqrt(v[1]) + epsilon);
      };
    });
  });
}

KernelResult make_adam(const Node& node) {
  const double norm = node.float_or("norm_coefficient", 0.0f);
  const double norm_post = node.float_or("norm_coefficient_post", 0.0f);
  const double epsilon = node.float_or("epsilon", 1e-6f);
  const double alpha = node.float_or("alpha", 0.9f);
  const double beta = node.float_or("beta", 0.999f);
  return kernel([=](KernelContext& context) {
    return run_steps(context, 4, [=](double rate, double count) {
      const double r =
          count > 0 ? rate * std::sqrt(1 - std::pow(beta, count)) / (1 - std::pow(alpha, count))
                    : rate;
      return [=](ScratchVector<double>& v) {
        const double g = norm * v[0] + v[3];
        v[1] = alpha * v[1] + (1 - alpha) * g;
        v[2] = beta * v[2] + (1 - beta) * g * g;
        v[0] = (1 - norm_post) * (v[0] - r * v[1] / (std::sqrt(v[2]) + epsilon));
      };
    });
  });
}

KernelResult make_momentum(const Node& node) {
  const std::string mode = CTXGEN_TRY(one_of(node, "mode", "", {"standard", "nesterov"}));
  const bool nesterov = mode == "nesterov";
  const double norm = node.float_or("norm_coefficient", 0.0f);
  const double alpha = node.float_or("alpha", 0.0f);
  const double beta = node.float_or("beta", 0.0f);
  return kernel([=](KernelContext& context) {
    return run_steps(context, 3, [=](double rate, double count) {
      return [=, factor = count > 0 ? beta : 1.0](ScratchVector<double>& v) {
        const double g = norm * v[0] + v[2];
        v[1] = alpha * v[1] + factor * g;
        v[0] -= rate * (nesterov ? g + alpha * v[1] : v[1]);
      };
    });
  });
}

constexpr std::string_view kTraining = "ai.onnx.preview.training";

constexpr OpRow kTrainingRows[] = {
    {kTraining, "Adagrad", 1, 1, make_adagrad, "float, double"},
    {kTraining, "Adam", 1, 1, make_adam, "float, double"},
    {kTraining, "Momentum", 1, 1, make_momentum, "float, double"},
};

}  // namespace

constinit const std::span<const OpRow> kTrainingOps = kTrainingRows;

}  // namespace ctxgen::cpu
