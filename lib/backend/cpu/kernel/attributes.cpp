#include "kernel/attributes.h"

#include <algorithm>

#include "kernel/function_kernel.h"

namespace ctxgen::cpu {

Status not_indices(const Tensor& tensor) {
  return fail(ErrorCode::kInvalidGraph, "a tensor of indices is {}, expected int32 or int64",
              name_of(tensor.type()));
}

Result<ScratchVector<std::int64_t>> ints_of(const Tensor& tensor) {
  ScratchVector<std::int64_t> values;
  if (tensor.type() == DataType::kInt64) {
    const auto elements = tensor.elements<std::int64_t>();
    values.assign(elements.begin(), elements.end());
  } else if (tensor.type() == DataType::kInt32) {
    const auto elements = tensor.elements<std::int32_t>();
    values.assign(elements.begin(), elements.end());
  } else {
    return std::unexpected(not_indices(tensor).error());
  }
  return values;
}

Result<double> scalar_of(const Tensor& tensor) {
  if (tensor.is_string() || tensor.element_count() != 1)
    return fail(ErrorCode::kInvalidGraph, "a scalar is {} of shape {}", name_of(tensor.type()),
                to_string(tensor.dims()));
  double value = 0;
  CTXGEN_CHECK(dispatch(NumericAndBoolTypes{}, tensor.type(), [&]<class T>() -> Status {
    value = static_cast<double>(load(*data_of<T>(tensor)));
    return {};
  }));
  return value;
}

Result<std::int64_t> scalar_int_of(const Tensor& tensor) {
  const auto values = CTXGEN_TRY(ints_of(tensor));
  if (values.size() != 1)
    return fail(ErrorCode::kInvalidGraph, "a scalar has shape {}", to_string(tensor.dims()));
  return values[0];
}

Result<std::optional<ScratchVector<std::int64_t>>> IntsParam::get(
    const KernelContext& context) const {
  if (attribute) return ScratchVector<std::int64_t>(attribute->begin(), attribute->end());
  const Tensor* tensor = optional_input(context, input_index);
  if (tensor == nullptr) return std::nullopt;
  auto values = CTXGEN_TRY(ints_of(*tensor));
  return std::optional(std::move(values));
}

IntsParam ints_param(const Node& node, std::string_view name, std::size_t input_index) {
  IntsParam param{.attribute = std::nullopt, .input_index = input_index};
  if (const auto values = node.ints(name))
    param.attribute = std::vector<std::int64_t>(values->begin(), values->end());
  return param;
}

Result<std::optional<std::int64_t>> IntParam::get(const KernelContext& context) const {
  if (attribute) return attribute;
  const Tensor* tensor = optional_input(context, input_index);
  if (tensor == nullptr) return std::nullopt;
  const std::int64_t value = CTXGEN_TRY(scalar_int_of(*tensor));
  return std::optional(value);
}

IntParam int_param(const Node& node, std::string_view name, std::size_t input_index) {
  IntParam param{.attribute = std::nullopt, .input_index = input_index};
  if (node.attribute(name) != nullptr) param.attribute = node.int_or(name, 0);
  return param;
}

Result<std::optional<double>> FloatParam::get(const KernelContext& context) const {
  if (attribute) return attribute;
  const Tensor* tensor = optional_input(context, input_index);
  if (tensor == nullptr) return std::nullopt;
  const double value = CTXGEN_TRY(scalar_of(*tensor));
  return std::optional(value);
}

FloatParam float_param(const Node& node, std::string_view name, std::size_t input_index) {
  FloatParam param{.attribute = std::nullopt, .input_index = input_index};
  if (node.attribute(name) != nullptr) param.attribute = node.float_or(name, 0);
  return param;
}

std::vector<std::int64_t> ints_or(const Node& node, std::string_view name,
                                  std::vector<std::int64_t> otherwise) {
  const auto values = node.ints(name);
  return values ? std::vector<std::int64_t>(values->begin(), values->end()) : std::move(otherwise);
}

std::vector<float> floats_or_empty(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  return attribute == nullptr ? std::vector<float>{} : attribute->floats;
}

std::vector<std::string> strings_or_empty(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  return attribute == nullptr ? std::vector<std::string>{} : attribute->strings;
}

Result<ScratchVector<std::size_t>> normalize_axes(std::span<const std::int64_t> axes,
                                                  std::size_t rank) {
  ScratchVector<std::size_t> result;
  for (std::int64_t axis : axes) result.push_back(CTXGEN_TRY(normalize_axis(axis, rank)));
  std::ranges::sort(result);
  if (std::ranges::adjacent_find(result) != result.end())
    return fail(ErrorCode::kInvalidGraph, "axes name the same axis twice");
  return result;
}

Result<std::string> one_of(const Node& node, std::string_view name, std::string_view otherwise,
                           std::initializer_list<std::string_view> known) {
  const std::string value(node.string_or(name, otherwise));
  if (std::ranges::find(known, std::string_view(value)) == known.end())
    return fail(ErrorCode::kUnsupported, "{}: attribute {} is \"{}\"", node.describe(), name,
                value);
  return value;
}

}  // namespace ctxgen::cpu
