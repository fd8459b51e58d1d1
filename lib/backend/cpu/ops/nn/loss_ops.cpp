#include <cmath>
#include <optional>

#include "families.h"
#include "kernel/attributes.h"
#include "kernel/function_kernel.h"

// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: both weigh and reduce log probabilities.

namespace ctxgen::cpu {
namespace {

enum class Reduction { kNone, kMean, kSum };

struct Params {
  Reduction reduction = Reduction::kMean;
  std::optional<std::int64_t> ignored;
};

Result<Params> read_params(const Node& node) {
  Params params;
  const std::string reduction =
      CTXGEN_TRY(one_of(node, "reduction", "mean", {"none", "mean", "sum"}));
  params.reduction = reduction == "none"   ? Reduction::kNone
                     : reduction == "mean" ? Reduction::kMean
                                           : Reduction::kSum;
  if (node.attribute("ignore_index") != nullptr) params.ignored = node.int_or("ignore_index", 0);
  return params;
}

struct Inputs {
  const Tensor *scores, *weights;
  Dims label_dims;
  ScratchVector<std::int64_t> labels;
  std::int64_t classes, inner;  // elements after the class axis
};

Result<Inputs> read_inputs(const KernelContext& context, const Params& params) {
  Inputs in{};
  in.scores = CTXGEN_TRY(required(context, 0));
  const Tensor* labels = CTXGEN_TRY(required(context, 1));
  in.weights = optional_input(context, 2);
  CTXGEN_CHECK(expect_rank(*in.scores, "input", 2));
  const Dims& d = in.scores->dims();
  in.label_dims = Dims{d[0]};
  for (std::size_t i = 2; i < d.size(); ++i) in.label_dims.push_back(d[i]);
  CTXGEN_CHECK(expect_dims(*labels, "target", in.label_dims));
  in.classes = d[1];
  in.inner = product(d, 2, d.size());
  if (in.weights != nullptr) {
    CTXGEN_CHECK(same_type(*in.scores, *in.weights));
    CTXGEN_CHECK(expect_dims(*in.weights, "weight", {in.classes}));
  }
  in.labels = CTXGEN_TRY(ints_of(*labels));
  for (std::int64_t label : in.labels)
    if (label != params.ignored && (label < 0 || label >= in.classes))
      return fail(ErrorCode::kInvalidGraph, "target {} is none of {} classes", label, in.classes);
  return in;
}

// log_probability(offset of class 0, offset of the class) of the sample in the scores.
template <class T, class F>
Status put_loss(KernelContext& context, const Inputs& in, const Params& params,
                const F& log_probability) {
  const bool keep = params.reduction == Reduction::kNone;
  Tensor* output =
      CTXGEN_TRY(context.make_output(0, in.scores->type(), keep ? in.label_dims : Dims{}));
  T* to = mutable_data_of<T>(*output);
  double sum = 0;
  double weight_sum = 0;
  for (std::size_t i = 0; i < in.labels.size(); ++i) {
    const auto sample = static_cast<std::int64_t>(i);
    const std::int64_t label = in.labels[i];
    double loss = 0;
    if (label != params.ignored) {
      const double weight =
          in.weights == nullptr ? 1.0 : static_cast<double>(load(data_of<T>(*in.weights)[label]));
      const std::int64_t first = sample / in.inner * in.classes * in.inner + sample % in.inner;
      loss = -log_probability(first, first + label * in.inner) * weight;
      weight_sum += weight;
    }
    sum += loss;
    if (keep) to[i] = store<T>(loss);
  }
  if (!keep) *to = store<T>(params.reduction == Reduction::kMean ? sum / weight_sum : sum);
  return {};
}

KernelResult make_nll_loss(const Node& node) {
  const Params params = CTXGEN_TRY(read_params(node));
  return kernel([params](KernelContext& context) -> Status {
    const Inputs in = CTXGEN_TRY(read_inputs(context, params));
    return dispatch(RealTypes{}, in.scores->type(), [&]<class T>() -> Status {
      return put_loss<T>(context, in, params, [&](std::int64_t, std::int64_t at) {
        return static_cast<double>(load(data_of<T>(*in.scores)[at]));
      });
    });
  });
}

// log(sum(exp(x))) over the classes.
template <class T>
double log_sum(const Inputs& in, const T* first) {
  double most = -INFINITY;
  for (std::int64_t c = 0; c < in.classes; ++c)
    most = std::max(most, static_cast<double>(load(first[c * in.inner])));
  if (!std::isfinite(most)) return most;
  double sum = 0;
  for (std::int64_t c = 0; c < in.classes; ++c)
    sum += std::exp(static_cast<double>(load(first[c * in.inner])) - most);
  return most + std::log(sum);
}

template <class T>
Status cross_entropy(KernelContext& context, const Params& params) {
  const Inputs in = CTXGEN_TRY(read_inputs(context, params));
  const T* scores = data_of<T>(*in.scores);
  if (context.output_wanted(1)) {
    Tensor* output = CTXGEN_TRY(context.make_output(1, in.scores->type(), in.scores->dims()));
    T* to = mutable_data_of<T>(*output);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(in.labels.size()); ++i) {
      const std::int64_t first = i / in.inner * in.classes * in.inner + i % in.inner;
      const double total = log_sum(in, scores + first);
      for (std::int64_t c = 0; c < in.classes; ++c)
        to[first + c * in.inner] =
            store<T>(static_cast<double>(load(scores[first + c * in.inner])) - total);
    }
  }
  return put_loss<T>(context, in, params, [&](std::int64_t first, std::int64_t at) {
    return static_cast<double>(load(scores[at])) - log_sum(in, scores + first);
  });
}

KernelResult make_cross_entropy(const Node& node) {
  const Params params = CTXGEN_TRY(read_params(node));
  return kernel([params](KernelContext& context) -> Status {
    const Tensor* scores = CTXGEN_TRY(required(context, 0));
    return dispatch(RealTypes{}, scores->type(),
                    [&]<class T>() { return cross_entropy<T>(context, params); });
  });
}

constexpr OpRow kLossRows[] = {
    {kOnnx, "NegativeLogLikelihoodLoss", 12, 22, make_nll_loss, "floats"},
    {kOnnx, "SoftmaxCrossEntropyLoss", 12, 13, make_cross_entropy, "floats"},
};

}  // namespace

constinit const std::span<const OpRow> kLossOps = kLossRows;

}  // namespace ctxgen::cpu
