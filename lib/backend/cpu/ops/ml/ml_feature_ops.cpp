#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "families.h"
#include "kernel/attributes.h"
#include "tensors/indices.h"

// ai.onnx.ml: features in and out of tensors.

namespace ctxgen::cpu {
namespace {

using FeatureTypes = Types<float, double, std::int32_t, std::int64_t>;

// Calls f(element, column) for each element of X, converted to double, and stores the float result.
template <class F>
Status map_features(KernelContext& context, const F& f) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, input->dims()));
  const std::int64_t width = input->rank() == 0 ? 1 : input->dims().back();
  return dispatch(FeatureTypes{}, input->type(), [&]<class T>() -> Status {
    for (std::int64_t i = 0; i < input->element_count(); ++i)
      mutable_data_of<float>(*output)[i] =
          static_cast<float>(f(static_cast<double>(data_of<T>(*input)[i]), i % width));
    return {};
  });
}

// A list with one value for all columns, or one per column.
template <class T>
Status check_columns(const KernelContext& context, const std::vector<T>& values,
                     std::string_view name) {
  const Tensor* input = CTXGEN_TRY(required(context, 0));
  const std::int64_t width = input->rank() == 0 ? 1 : input->dims().back();
  if (values.size() == 1 || std::ssize(values) == width) return {};
  return fail(ErrorCode::kInvalidGraph, "{} has {} values for {} features", name, values.size(),
              width);
}
template <class T>
T column(const std::vector<T>& values, std::int64_t i) {
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(i)];
}

KernelResult make_scaler(const Node& node) {
  auto scale = floats_or_empty(node, "scale");
  auto offset = floats_or_empty(node, "offset");
  if (scale.empty()) scale = {1};
  if (offset.empty()) offset = {0};
  return kernel([scale, offset](KernelContext& context) -> Status {
    CTXGEN_CHECK(check_columns(context, scale, "scale"));
    CTXGEN_CHECK(check_columns(context, offset, "offset"));
    return map_features(context, [&](double x, std::int64_t i) {
      return (x - static_cast<double>(column(offset, i))) * static_cast<double>(column(scale, i));
    });
  });
}

KernelResult make_binarizer(const Node& node) {
  return kernel([threshold = static_cast<double>(node.float_or("threshold", 0.0f))](
                    KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), input->dims()));
    return dispatch(FeatureTypes{}, input->type(), [&]<class T>() -> Status {
      std::transform(data_of<T>(*input), data_of<T>(*input) + input->element_count(),
                     mutable_data_of<T>(*output), [threshold](T x) {
                       return static_cast<T>(static_cast<double>(x) > threshold ? 1 : 0);
                     });
      return {};
    });
  });
}

// ---- Normalizer ----

enum class Norm { kMax, kL1, kL2 };

double norm_of(Norm norm, std::span<const double> row) {
  double result = norm == Norm::kMax ? -INFINITY : 0;
  for (double x : row) {
    if (norm == Norm::kMax) result = std::max(result, x);
    if (norm == Norm::kL1) result += std::abs(x);
    if (norm == Norm::kL2) result += x * x;
  }
  return norm == Norm::kL2 ? std::sqrt(result) : result;
}

KernelResult make_normalizer(const Node& node) {
  const std::string name = CTXGEN_TRY(one_of(node, "norm", "MAX", {"MAX", "L1", "L2"}));
  const Norm norm = name == "MAX" ? Norm::kMax : name == "L1" ? Norm::kL1 : Norm::kL2;
  return kernel([norm](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    CTXGEN_CHECK(expect_rank(*input, "X", 1, 2));
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, input->dims()));
    const std::int64_t width = input->dims().back();
    if (input->element_count() == 0) return {};
    std::vector<double> row(static_cast<std::size_t>(width));
    return dispatch(FeatureTypes{}, input->type(), [&]<class T>() -> Status {
      for (std::int64_t r = 0; r < input->element_count() / width; ++r) {
        const T* from = data_of<T>(*input) + r * width;
        std::transform(from, from + width, row.begin(), [](T x) { return static_cast<double>(x); });
        const double divisor = norm_of(norm, row);
        std::ranges::transform(row, mutable_data_of<float>(*output) + r * width, [&](double x) {
          return static_cast<float>(divisor == 0 ? x : x / divisor);
        });
      }
      return {};
    });
  });
}

// ---- Imputer ----

template <class T, class V>
Status impute(KernelContext& context, V replaced, const std::vector<V>& imputed) {
  CTXGEN_CHECK(check_columns(context, imputed, "imputed_value"));
  const Tensor& input = *context.input(0);
  Tensor* output = CTXGEN_TRY(context.make_output(0, input.type(), input.dims()));
  const std::int64_t width = input.rank() == 0 ? 1 : input.dims().back();
  for (std::int64_t i = 0; i < input.element_count(); ++i) {
    const T x = data_of<T>(input)[i];
    bool missing = static_cast<V>(x) == replaced;
    if constexpr (std::is_floating_point_v<V>)
      missing = missing || (std::isnan(x) && std::isnan(replaced));
    mutable_data_of<T>(*output)[i] = missing ? static_cast<T>(column(imputed, i % width)) : x;
  }
  return {};
}

KernelResult make_imputer(const Node& node) {
  const auto floats = floats_or_empty(node, "imputed_value_floats");
  const auto ints = ints_or(node, "imputed_value_int64s", {});
  const float replaced_float = node.float_or("replaced_value_float", 0.0f);
  const std::int64_t replaced_int = node.int_or("replaced_value_int64", 0);
  return kernel([=](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    return dispatch(FeatureTypes{}, input->type(), [&]<class T>() -> Status {
      if constexpr (std::is_floating_point_v<T>)
        return impute<T, float>(context, replaced_float, floats);
      else
        return impute<T, std::int64_t>(context, replaced_int, ints);
    });
  });
}

// ---- ArrayFeatureExtractor, FeatureVectorizer ----

KernelResult make_extractor(const Node&) {
  return kernel([](KernelContext& context) -> Status {
    const Tensor* input = CTXGEN_TRY(required(context, 0));
    const Tensor* index_tensor = CTXGEN_TRY(required(context, 1, DataType::kInt64));
    CTXGEN_CHECK(require_whole_bytes(*input));
    CTXGEN_CHECK(expect_rank(*input, "X", 1));
    const std::int64_t width = input->dims().back();
    const auto indices = CTXGEN_TRY(checked_indices(*index_tensor, width));
    Dims dims = input->rank() == 1 ? Dims{1, 1} : input->dims();  // a vector is one row
    dims[dims.size() - 1] = std::ssize(indices);
    Tensor* output = CTXGEN_TRY(context.make_output(0, input->type(), dims));
    std::int64_t to = 0;
    for (std::int64_t r = 0; r < product(dims, 0, dims.size() - 1); ++r)
      for (std::int64_t index : indices) copy_elements(*input, r * width + index, *output, to++, 1);
    return {};
  });
}

struct VectorInput {
  const Tensor* tensor;
  std::int64_t width, used;  // used: how many columns the output has for it
};

Result<std::vector<VectorInput>> vector_inputs(const KernelContext& context,
                                               const std::vector<std::int64_t>& sizes,
                                               std::int64_t& rows) {
  std::vector<VectorInput> inputs;
  if (!sizes.empty() && sizes.size() != context.input_count())
    return fail(ErrorCode::kInvalidGraph, "inputdimensions has {} values for {} inputs",
                sizes.size(), context.input_count());
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    const Tensor* tensor = CTXGEN_TRY(required(context, i));
    CTXGEN_CHECK(expect_rank(*tensor, "an input", 1, 2));
    const std::int64_t width = tensor->dims().back();
    const std::int64_t height = tensor->rank() == 1 ? 1 : tensor->dims()[0];
    const std::int64_t used = sizes.empty() ? width : sizes[i];
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (used < 0 || used > kMost || (i > 0 && height != rows))
      return fail(ErrorCode::kInvalidGraph, "input {} is {}, inputdimensions {}", i,
                  to_string(tensor->dims()), used);
    rows = height;
    inputs.push_back({tensor, width, used});
  }
  return inputs;
}

KernelResult make_vectorizer(const Node& node) {
  return kernel([sizes = ints_or(node, "inputdimensions", {})](KernelContext& context) -> Status {
    std::int64_t rows = 0;
    const auto inputs = CTXGEN_TRY(vector_inputs(context, sizes, rows));
    std::int64_t width = 0;
    for (const VectorInput& input : inputs)
      if (__builtin_add_overflow(width, input.used, &width))
        return fail(ErrorCode::kInvalidGraph, "inputdimensions add up to too much");
    Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, {rows, width}));
    std::int64_t start = 0;
    for (const VectorInput& input : inputs) {
      CTXGEN_CHECK(dispatch(FeatureTypes{}, input.tensor->type(), [&]<class T>() -> Status {
        for (std::int64_t i = 0; i < rows * input.used; ++i) {
          const std::int64_t r = i / input.used;
          const std::int64_t c = i % input.used;
          const T* row = data_of<T>(*input.tensor) + r * input.width;
          mutable_data_of<float>(*output)[r * width + start + c] =
              c < input.width ? static_cast<float>(row[c]) : 0.0f;
        }
        return {};
      }));
      start += input.used;
    }
    return {};
  });
}

// ---- OneHotEncoder ----

template <class T, class V>
Status encode(const Tensor& input, const std::vector<V>& categories, bool zeros, float* to) {
  for (std::int64_t i = 0; i < input.element_count(); ++i) {
    std::ptrdiff_t found = std::ssize(categories);
    if constexpr (std::is_same_v<V, std::string>)
      found = std::ranges::find(categories, data_of<T>(input)[i]) - categories.begin();
    else if (const auto x = static_cast<double>(data_of<T>(input)[i]); std::abs(x) < 9e18)
      found =
          std::ranges::find(categories, static_cast<V>(data_of<T>(input)[i])) - categories.begin();
    if (found < std::ssize(categories))
      to[i * std::ssize(categories) + found] = 1;
    else if (!zeros)
      return fail(ErrorCode::kInvalidGraph, "element {} is none of the categories", i);
  }
  return {};
}

KernelResult make_one_hot(const Node& node) {
  const auto ints = ints_or(node, "cats_int64s", {});
  const auto strings = strings_or_empty(node, "cats_strings");
  if (ints.empty() == strings.empty())
    return fail(ErrorCode::kInvalidGraph, "{}: has no categories, or two lists", node.describe());
  return kernel(
      [ints, strings, zeros = node.int_or("zeros", 1) != 0](KernelContext& context) -> Status {
        const Tensor* input = CTXGEN_TRY(required(context, 0));
        if (input->rank() == kMaxRank || input->is_string() != ints.empty())
          return fail(ErrorCode::kUnsupported, "X is {} {}", name_of(input->type()),
                      to_string(input->dims()));
        Dims dims = input->dims();
        dims.push_back(static_cast<std::int64_t>(std::max(ints.size(), strings.size())));
        Tensor* output = CTXGEN_TRY(context.make_output(0, DataType::kFloat, dims));
        float* to = mutable_data_of<float>(*output);
        std::fill_n(to, output->element_count(), 0.0f);
        if (input->is_string()) return encode<std::string>(*input, strings, zeros, to);
        return dispatch(FeatureTypes{}, input->type(),
                        [&]<class T>() { return encode<T>(*input, ints, zeros, to); });
      });
}

constexpr std::string_view kLimits = "float, double, int32, int64";

constexpr OpRow kMlFeatureRows[] = {
    {kOnnxMl, "ArrayFeatureExtractor", 1, 1, make_extractor, "all types of a byte and more"},
    {kOnnxMl, "Binarizer", 1, 1, make_binarizer, kLimits},
    {kOnnxMl, "FeatureVectorizer", 1, 1, make_vectorizer, kLimits},
    {kOnnxMl, "Imputer", 1, 1, make_imputer, kLimits},
    {kOnnxMl, "Normalizer", 1, 1, make_normalizer, kLimits},
    {kOnnxMl, "OneHotEncoder", 1, 1, make_one_hot, "float, double, int32, int64, string"},
    {kOnnxMl, "Scaler", 1, 1, make_scaler, kLimits},
};

}  // namespace

constinit const std::span<const OpRow> kMlFeatureOps = kMlFeatureRows;

}  // namespace ctxgen::cpu
