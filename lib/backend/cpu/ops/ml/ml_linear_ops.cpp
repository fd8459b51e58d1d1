#include <algorithm>
#include <cmath>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "ops/ml/ml_scores.h"

// ai.onnx.ml: linear models and support vector regression.

namespace ctxgen::cpu {
namespace {

/// Rows of coefficients, one per target, with an intercept each.
struct Linear {
  std::vector<double> coefficients, intercepts;
  std::int64_t targets = 0;
  Transform transform = Transform::kNone;

  // Scores of one sample. Requires coefficients for each feature.
  [[nodiscard]] ScratchVector<double> scores(std::span<const double> row) const {
    ScratchVector<double> result(static_cast<std::size_t>(targets));
    for (std::size_t t = 0; t < result.size(); ++t) {
      result[t] = intercepts.empty() ? 0 : intercepts[t];
      for (std::size_t i = 0; i < row.size(); ++i)
        result[t] += row[i] * coefficients[t * row.size() + i];
    }
    return result;
  }
  [[nodiscard]] Status check(std::int64_t width) const {
    std::int64_t count = 0;
    if (!__builtin_mul_overflow(width, targets, &count) && count == std::ssize(coefficients))
      return {};
    return fail(ErrorCode::kInvalidGraph, "{} coefficients for {} features and {} targets",
                coefficients.size(), width, targets);
  }
};

Result<Linear> read_linear(const Node& node, std::int64_t targets) {
  Linear linear{.coefficients = CTXGEN_TRY(numbers(node, "coefficients")),
                .intercepts = CTXGEN_TRY(numbers(node, "intercepts")),
                .targets = targets,
                .transform = CTXGEN_TRY(transform_of(node))};
  if (targets < 1 || targets > (1 << 24) ||
      (!linear.intercepts.empty() && std::ssize(linear.intercepts) != targets))
    return fail(ErrorCode::kInvalidGraph, "{}: {} targets and {} intercepts", node.describe(),
                targets, linear.intercepts.size());
  return linear;
}

void put_scores(const ScratchVector<double>& scores, Tensor& output, std::int64_t row) {
  std::ranges::transform(scores, mutable_data_of<float>(output) + row * std::ssize(scores),
                         [](double x) { return static_cast<float>(x); });
}

KernelResult make_linear_regressor(const Node& node) {
  const Linear linear = CTXGEN_TRY(read_linear(node, node.int_or("targets", 1)));
  return kernel([linear](KernelContext& context) -> Status {
    const SampleDims dims = CTXGEN_TRY(sample_dims(context));
    CTXGEN_CHECK(linear.check(dims.width));
    Tensor* output =
        CTXGEN_TRY(context.make_output(0, DataType::kFloat, {dims.rows, linear.targets}));
    return for_each_sample(context, 0, [&](std::int64_t r, std::span<const double> row) -> Status {
      auto scores = linear.scores(row);
      apply_transform(linear.transform, scores);
      put_scores(scores, *output, r);
      return {};
    });
  });
}

// Two labels and one row of coefficients: the sign of the score decides, and the classes get 1 - score
// and score whatever the transform, as in ONNX Runtime.
std::size_t decide_binary(ScratchVector<double>& scores) {
  const double score = scores[0];
  scores = {1 - score, score};
  return score > 0 ? 1 : 0;
}

KernelResult make_linear_classifier(const Node& node) {
  const Labels labels = CTXGEN_TRY(labels_of(node, "classlabels_ints"));
  const std::size_t intercepts = floats_or_empty(node, "intercepts").size();
  const std::size_t targets = intercepts == 0 ? labels.count() : intercepts;
  const Linear linear = CTXGEN_TRY(read_linear(node, static_cast<std::int64_t>(targets)));
  const bool binary = labels.count() == 2 && targets == 1;
  if (!binary && targets != labels.count())
    return fail(ErrorCode::kInvalidGraph, "{}: {} intercepts for {} classes", node.describe(),
                intercepts, labels.count());
  return kernel([linear, labels, binary](KernelContext& context) -> Status {
    const SampleDims dims = CTXGEN_TRY(sample_dims(context));
    CTXGEN_CHECK(linear.check(dims.width));
    Tensor* label = CTXGEN_TRY(labels.make_output(context, dims.rows));
    Tensor* output = nullptr;
    if (context.output_wanted(1))
      output = CTXGEN_TRY(context.make_output(
          1, DataType::kFloat, {dims.rows, static_cast<std::int64_t>(labels.count())}));
    return for_each_sample(context, 0, [&](std::int64_t r, std::span<const double> row) -> Status {
      auto scores = linear.scores(row);
      std::size_t best = 0;
      if (binary) {
        best = decide_binary(scores);
      } else {
        best = static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
        apply_transform(linear.transform, scores);
      }
      labels.put(best, *label, r);
      if (output != nullptr) put_scores(scores, *output, r);
      return {};
    });
  });
}

// ---- SVMRegressor ----

struct SupportVectors {
  enum class Kind { kLinear, kPoly, kRbf, kSigmoid } kind = Kind::kLinear;
  double gamma = 0, shift = 0, degree = 0, rho = 0;
  std::vector<double> vectors, coefficients;  // vectors may be empty: coefficients are the model
  bool one_class = false;
  Transform transform = Transform::kNone;

  [[nodiscard]] double similarity(std::span<const double> a, std::span<const double> b) const {
    double dot = 0;
    double distance = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      dot += a[i] * b[i];
      distance += (a[i] - b[i]) * (a[i] - b[i]);
    }
    switch (kind) {
      case Kind::kPoly: return std::pow(gamma * dot + shift, degree);
      case Kind::kRbf: return std::exp(-gamma * distance);
      case Kind::kSigmoid: return std::tanh(gamma * dot + shift);
      case Kind::kLinear: break;
    }
    return dot;
  }
};

Result<SupportVectors> read_support_vectors(const Node& node) {
  SupportVectors svm{.vectors = CTXGEN_TRY(numbers(node, "support_vectors")),
                     .coefficients = CTXGEN_TRY(numbers(node, "coefficients")),
                     .one_class = node.int_or("one_class", 0) != 0,
                     .transform = CTXGEN_TRY(transform_of(node))};
  using Kind = SupportVectors::Kind;
  const std::string kind =
      CTXGEN_TRY(one_of(node, "kernel_type", "LINEAR", {"LINEAR", "POLY", "RBF", "SIGMOID"}));
  svm.kind = kind == "POLY"      ? Kind::kPoly
             : kind == "RBF"     ? Kind::kRbf
             : kind == "SIGMOID" ? Kind::kSigmoid
                                 : Kind::kLinear;
  const auto params = CTXGEN_TRY(numbers(node, "kernel_params"));
  const auto rho = CTXGEN_TRY(numbers(node, "rho"));
  if (svm.kind != Kind::kLinear && params.size() != 3)
    return fail(ErrorCode::kInvalidGraph, "{}: kernel_params has {} values, expected 3",
                node.describe(), params.size());
  if (params.size() == 3) {
    svm.gamma = params[0];
    svm.shift = params[1];
    svm.degree = params[2];
  }
  if (rho.empty()) return fail(ErrorCode::kInvalidGraph, "{}: rho is missing", node.describe());
  svm.rho = rho[0];
  if (node.int_or("n_supports", 0) <= 0) svm.vectors.clear();
  return svm;
}

double predict(const SupportVectors& svm, std::span<const double> row) {
  double sum = svm.rho;
  if (svm.vectors.empty()) {
    for (std::size_t i = 0; i < row.size(); ++i) sum += row[i] * svm.coefficients[i];
    return sum;
  }
  for (std::size_t v = 0; v < svm.coefficients.size(); ++v)
    sum += svm.coefficients[v] *
           svm.similarity(row, std::span(svm.vectors).subspan(v * row.size(), row.size()));
  return sum;
}

KernelResult make_svm_regressor(const Node& node) {
  const SupportVectors svm = CTXGEN_TRY(read_support_vectors(node));
  return kernel([svm](KernelContext& context) -> Status {
    const SampleDims dims = CTXGEN_TRY(sample_dims(context));
    const std::size_t width = static_cast<std::size_t>(dims.width);
    const std::size_t expected = svm.vectors.empty() ? width
                                 : width == 0        ? SIZE_MAX
                                                     : svm.vectors.size() / width;
    if (svm.coefficients.size() != expected ||
        (!svm.vectors.empty() && svm.vectors.size() % width != 0))
      return fail(ErrorCode::kInvalidGraph,
                  "{} coefficients and {} numbers of vectors for {} features",
                  svm.coefficients.size(), svm.vectors.size(), width);
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, {dims.rows, 1}));
    return for_each_sample(context, 0, [&](std::int64_t r, std::span<const double> row) -> Status {
      ScratchVector<double> scores{predict(svm, row)};
      if (svm.one_class)
        scores[0] = scores[0] > 0 ? 1 : -1;
      else
        apply_transform(svm.transform, scores);
      put_scores(scores, *output, r);
      return {};
    });
  });
}

constexpr std::string_view kLinearLimits = "float, double, int32, int64";

constexpr OpRow kMlLinearRows[] = {
    {kOnnxMl, "LinearClassifier", 1, 1, make_linear_classifier, kLinearLimits},
    {kOnnxMl, "LinearRegressor", 1, 1, make_linear_regressor, kLinearLimits},
    {kOnnxMl, "SVMRegressor", 1, 1, make_svm_regressor, kLinearLimits},
};

}  // namespace

constinit const std::span<const OpRow> kMlLinearOps = kMlLinearRows;

}  // namespace ctxgen::cpu
