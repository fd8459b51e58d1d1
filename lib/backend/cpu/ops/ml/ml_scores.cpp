#include "ops/ml/ml_scores.h"

#include <cmath>
#include <numbers>

#include "kernel/attributes.h"
#include "kernel/stop.h"
#include "kernel/string_memory.h"
#include "ops/math/sigmoid.h"

namespace ctxgen::cpu {
namespace {

// Winitzki's approximation of the inverse error function, as ONNX Runtime has it.
double probit(double p) {
  const double x = 2 * p - 1;
  const double log_term = std::log((1 - x) * (1 + x));
  const double a = 2 / (M_PI * 0.147) + 0.5 * log_term;
  const double root = std::sqrt(-a + std::sqrt(a * a - log_term / 0.147));
  return std::numbers::sqrt2 * (x < 0 ? -root : root);
}

}  // namespace

Result<Transform> transform_of(const Node& node) {
  const std::string name = CTXGEN_TRY(one_of(
      node, "post_transform", "NONE", {"NONE", "SOFTMAX", "SOFTMAX_ZERO", "LOGISTIC", "PROBIT"}));
  if (name == "SOFTMAX") return Transform::kSoftmax;
  if (name == "SOFTMAX_ZERO") return Transform::kSoftmaxZero;
  if (name == "LOGISTIC") return Transform::kLogistic;
  return name == "PROBIT" ? Transform::kProbit : Transform::kNone;
}

void apply_transform(Transform transform, ScratchVector<double>& scores) {
  if (transform == Transform::kLogistic)
    for (double& x : scores) x = sigmoid(x);
  if (transform == Transform::kProbit)
    for (double& x : scores) x = probit(x);
  if (transform != Transform::kSoftmax && transform != Transform::kSoftmaxZero) return;
  const bool skip_zeros = transform == Transform::kSoftmaxZero;
  const double most = scores.empty() ? 0 : std::ranges::max(scores);
  double sum = 0;
  for (double& x : scores) {
    if (skip_zeros && x == 0) continue;
    x = std::exp(x - most);
    sum += x;
  }
  for (double& x : scores) x /= sum;
}

Result<std::vector<double>> tensor_numbers(const Node& node, std::string_view name) {
  std::vector<double> values;
  const Attribute* attribute = node.attribute(name);
  if (attribute == nullptr || attribute->tensors.size() != 1) return values;
  const Tensor aligned = CTXGEN_TRY(attribute->tensors[0].aligned());
  CTXGEN_CHECK(dispatch(NumericTypes{}, aligned.type(), [&]<class T>() -> Status {
    for (const T& x :
         std::span(data_of<T>(aligned), static_cast<std::size_t>(aligned.element_count())))
      values.push_back(static_cast<double>(load(x)));
    return {};
  }));
  return values;
}

Result<std::vector<double>> numbers(const Node& node, std::string_view name) {
  const std::string as_tensor = std::string(name) + "_as_tensor";
  if (node.attribute(as_tensor) != nullptr) return tensor_numbers(node, as_tensor);
  const auto floats = floats_or_empty(node, name);
  return std::vector<double>(floats.begin(), floats.end());
}

Result<Tensor*> Labels::make_output(KernelContext& context, std::int64_t rows) const {
  if (!strings.empty()) CTXGEN_CHECK(check_strings(context, {rows}, longest_of(strings)));
  return context.make_output(0, type(), {rows});
}

void Labels::put(std::size_t index, Tensor& output, std::int64_t row) const {
  if (strings.empty())
    mutable_data_of<std::int64_t>(output)[row] = ints[index];
  else
    output.mutable_strings()[static_cast<std::size_t>(row)] = strings[index];
}

Result<Labels> labels_of(const Node& node, std::string_view ints_name) {
  Labels labels{ints_or(node, ints_name, {}), strings_or_empty(node, "classlabels_strings")};
  if (labels.count() == 0 || (!labels.ints.empty() && !labels.strings.empty()))
    return fail(ErrorCode::kInvalidGraph, "{}: has no class labels, or two lists", node.describe());
  return labels;
}

Result<SampleDims> sample_dims(const KernelContext& context) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  CTXGEN_CHECK(expect_rank(*input, "X", 1, 2));
  return SampleDims{input->rank() == 1 ? 1 : input->dims()[0], input->dims().back()};
}

Status for_each_sample(const KernelContext& context, std::int64_t features,
                       const SampleFunction& f) {
  const SampleDims dims = CTXGEN_TRY(sample_dims(context));
  if (dims.width < features)
    return fail(ErrorCode::kInvalidGraph, "X has {} features, expected {}", dims.width, features);
  const Tensor& input = *context.input(0);
  ScratchVector<double> row(static_cast<std::size_t>(dims.width));
  return dispatch(Types<float, double, Half, std::int32_t, std::int64_t>{}, input.type(),
                  [&]<class T>() -> Status {
                    for (std::int64_t r = 0; r < dims.rows && !run_stopped(); ++r) {
                      const T* from = data_of<T>(input) + r * dims.width;
                      std::transform(from, from + dims.width, row.begin(),
                                     [](T x) { return static_cast<double>(load(x)); });
                      CTXGEN_CHECK(f(r, std::span<const double>(row)));
                    }
                    return {};
                  });
}

}  // namespace ctxgen::cpu
