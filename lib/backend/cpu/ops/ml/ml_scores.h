#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/function_ref.h"

#include "kernel/function_kernel.h"

// What the classifiers and regressors of ai.onnx.ml share.

namespace ctxgen::cpu {

/// post_transform of scores.
enum class Transform { kNone, kSoftmax, kSoftmaxZero, kLogistic, kProbit };
[[nodiscard]] Result<Transform> transform_of(const Node& node);
void apply_transform(Transform transform, ScratchVector<double>& scores);

/// A list of numbers: floats, or a tensor in the `_as_tensor` form of version 3.
[[nodiscard]] Result<std::vector<double>> numbers(const Node& node, std::string_view name);
/// The numbers of a tensor attribute of any numeric type; nothing if it is absent.
[[nodiscard]] Result<std::vector<double>> tensor_numbers(const Node& node, std::string_view name);

/// Class labels: integers or strings.
struct Labels {
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
  [[nodiscard]] std::size_t count() const { return std::max(ints.size(), strings.size()); }
  [[nodiscard]] DataType type() const {
    return strings.empty() ? DataType::kInt64 : DataType::kString;
  }
  /// Output 0: a label for each row.
  [[nodiscard]] Result<Tensor*> make_output(KernelContext& context, std::int64_t rows) const;
  /// Writes label `index` to element `row`.
  void put(std::size_t index, Tensor& output, std::int64_t row) const;
};
/// From classlabels_strings or the attribute of integers. Errors: INVALID_GRAPH unless it is one.
[[nodiscard]] Result<Labels> labels_of(const Node& node, std::string_view ints_name);

/// [N, F], or one row [F]. Errors: INVALID_GRAPH for another rank.
struct SampleDims {
  std::int64_t rows = 0, width = 0;
};
[[nodiscard]] Result<SampleDims> sample_dims(const KernelContext& context);

/// Calls f(row index, features as doubles) for each row.
using SampleFunction = FunctionRef<Status(std::int64_t, std::span<const double>)>;
[[nodiscard]] Status for_each_sample(const KernelContext& context, std::int64_t features,
                                     const SampleFunction& f);

}  // namespace ctxgen::cpu
