#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/cpu/kernel.h"

// Parameters of a node that are attributes in some opsets and inputs in others.

namespace ctxgen::cpu {

inline constexpr std::size_t kNoInput = SIZE_MAX;

/// The error of a tensor of indices that is neither int32 nor int64.
[[nodiscard]] Status not_indices(const Tensor& tensor);
/// Values of an int32 or int64 tensor. Errors: INVALID_GRAPH.
[[nodiscard]] Result<ScratchVector<std::int64_t>> ints_of(const Tensor& tensor);
/// The only value of a tensor with one element, of any numeric type.
[[nodiscard]] Result<std::int64_t> scalar_int_of(const Tensor& tensor);
[[nodiscard]] Result<double> scalar_of(const Tensor& tensor);

/// A list of integers: the attribute if the node has it, else the input, else nothing.
struct IntsParam {
  std::optional<std::vector<std::int64_t>> attribute;
  std::size_t input_index = kNoInput;
  [[nodiscard]] Result<std::optional<ScratchVector<std::int64_t>>> get(
      const KernelContext& context) const;
};
[[nodiscard]] IntsParam ints_param(const Node& node, std::string_view name,
                                   std::size_t input_index = kNoInput);

/// One integer, likewise.
struct IntParam {
  std::optional<std::int64_t> attribute;
  std::size_t input_index = kNoInput;
  [[nodiscard]] Result<std::optional<std::int64_t>> get(const KernelContext& context) const;
};
[[nodiscard]] IntParam int_param(const Node& node, std::string_view name, std::size_t input_index);

/// One number, likewise.
struct FloatParam {
  std::optional<double> attribute;
  std::size_t input_index = kNoInput;
  [[nodiscard]] Result<std::optional<double>> get(const KernelContext& context) const;
};
[[nodiscard]] FloatParam float_param(const Node& node, std::string_view name,
                                     std::size_t input_index);

[[nodiscard]] std::vector<std::int64_t> ints_or(const Node& node, std::string_view name,
                                                std::vector<std::int64_t> otherwise);
[[nodiscard]] std::vector<float> floats_or_empty(const Node& node, std::string_view name);
[[nodiscard]] std::vector<std::string> strings_or_empty(const Node& node, std::string_view name);

/// Axes counted from the front, sorted, without duplicates. Errors: INVALID_GRAPH.
[[nodiscard]] Result<ScratchVector<std::size_t>> normalize_axes(std::span<const std::int64_t> axes,
                                                                std::size_t rank);

/// Whether an enumerated string attribute has a known value. Errors: UNSUPPORTED naming it.
[[nodiscard]] Result<std::string> one_of(const Node& node, std::string_view name,
                                         std::string_view otherwise,
                                         std::initializer_list<std::string_view> known);

}  // namespace ctxgen::cpu
