#include "running/input_sizes.h"

#include <algorithm>
#include <format>

namespace ctxgen::cli {
namespace {

bool has_size(const IoInfo& info, std::size_t i, const ShapeProfile& shapes) {
  if ((*info.type.shape)[i].is_fixed()) return true;
  const auto is_info = [&](const auto& shape) { return shape.first == info.name; };
  const auto is_dim = [&](const auto& symbol) { return symbol.first == info.dim_names[i]; };
  return std::ranges::any_of(shapes.inputs, is_info) || std::ranges::any_of(shapes.symbols, is_dim);
}

const IoInfo* find_info(std::span<const IoInfo> infos, std::string_view name) {
  const auto at = std::ranges::find(infos, name, &IoInfo::name);
  return at == infos.end() ? nullptr : &*at;
}

bool is_dynamic(const IoInfo& info) {
  return !info.type.has_rank() ||
         std::ranges::any_of(*info.type.shape, [](const Dim& dim) { return !dim.is_fixed(); });
}

std::string dims_text(const Dims& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text.empty() ? "scalar" : text;
}

/// "batch, 2 unnamed": what was taken as 1.
std::string assumed_text(const InputSize& input) {
  std::string text;
  std::size_t unnamed = 0;
  for (const std::string& dim : input.assumed) {
    if (dim == "?")
      ++unnamed;
    else
      text += (text.empty() ? "" : ", ") + dim;
  }
  if (unnamed > 0) text += std::format("{}{} unnamed", text.empty() ? "" : ", ", unnamed);
  return text;
}

/// The tensor that a file gave for an input; null if none did, or raw bytes, which have the sizes of the flags.
const Tensor* tensor_of(const GivenInputs& given, std::string_view input) {
  const auto value = std::ranges::find(given.values, input, &NamedValue::name);
  if (value == given.values.end() || !value->value.is_tensor() ||
      std::ranges::contains(given.raw, input))
    return nullptr;
  return &value->value.tensor();
}

Status check_dim_used(std::span<const IoInfo> infos, const GivenInputs& given,
                      const std::string& name, std::int64_t size) {
  bool known = false, used = given.compiles;
  for (const IoInfo& info : infos) {
    const auto at = std::ranges::find(info.dim_names, name);
    if (at == info.dim_names.end()) continue;
    known = true;
    const Tensor* tensor = tensor_of(given, info.name);
    const auto i = static_cast<std::size_t>(at - info.dim_names.begin());
    if (tensor != nullptr && i < tensor->rank() && tensor->dims()[i] != size)
      return fail(ErrorCode::kInvalidArgument,
                  "--dim {}={}: input \"{}\" has {} there, from its file (--input)", name, size,
                  info.name, tensor->dims()[i]);
    used = used || tensor == nullptr;
  }
  if (used || !known) return {};
  return fail(
      ErrorCode::kInvalidArgument,
      "--dim {}={} has no effect: every input with that dimension comes from a file (--input)",
      name, size);
}

}  // namespace

std::vector<InputSize> input_sizes(std::span<const IoInfo> infos,
                                   std::span<const NamedValue> values,
                                   std::span<const std::string> given, const ShapeProfile& shapes) {
  std::vector<InputSize> inputs;
  for (const NamedValue& value : values) {
    if (!value.value.is_tensor()) continue;
    const Tensor& tensor = value.value.tensor();
    InputSize input{value.name,
                    std::string(name_of(tensor.type())),
                    tensor.dims(),
                    {},
                    !std::ranges::contains(given, value.name)};
    const IoInfo* info = find_info(infos, value.name);
    if (input.random && info != nullptr && info->type.has_rank())
      for (std::size_t i = 0; i < info->type.rank(); ++i)
        if (!has_size(*info, i, shapes))
          input.assumed.push_back(info->dim_names[i].empty() ? "?" : info->dim_names[i]);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

void write_input_sizes(JsonWriter& json, std::span<const InputSize> inputs) {
  json.begin_array();
  for (const InputSize& input : inputs) {
    json.begin_object()
        .field("name", input.name)
        .field("type", input.type)
        .key("dims")
        .begin_array();
    for (const std::int64_t dim : input.dims) json.value(dim);
    json.end_array().field("random", input.random).end_object();
  }
  json.end_array();
}

std::string input_sizes_text(std::span<const IoInfo> infos, std::span<const InputSize> inputs,
                             ShownInputs which) {
  std::string text;
  for (const InputSize& input : inputs) {
    const IoInfo* info = find_info(infos, input.name);
    if (info == nullptr || (which == ShownInputs::kOpen && !is_dynamic(*info))) continue;
    text += std::format("input {}: {} {}", input.name, input.type, dims_text(input.dims));
    if (!input.assumed.empty())
      text += std::format(" (taken as 1: {}; --dim and --shape set sizes)", assumed_text(input));
    text += "\n";
  }
  return text;
}

Error with_assumed_sizes(Error error, std::span<const InputSize> inputs) {
  std::string sizes, example;
  for (const InputSize& input : inputs) {
    if (input.assumed.empty()) continue;
    sizes +=
        std::format("{}{} of \"{}\"", sizes.empty() ? "" : ", ", assumed_text(input), input.name);
    if (!example.empty()) continue;
    example = std::format("--shape {}={}", input.name, dims_text(input.dims));
    for (const std::string& dim : input.assumed)
      if (dim != "?") example += std::format(" or --dim {}=SIZE", dim);
  }
  if (!sizes.empty() && error.code != ErrorCode::kCancelled)
    error.message += std::format(
        "; unspecified sizes were taken as 1 ({}): specify them, for example {}", sizes, example);
  return error;
}

Status check_sizes_used(std::span<const IoInfo> infos, const GivenInputs& given,
                        const ShapeProfile& shapes) {
  if (given.values.empty()) return {};
  for (const auto& [name, size] : shapes.symbols)
    CTXGEN_CHECK(check_dim_used(infos, given, name, size));
  for (const auto& [name, dims] : shapes.inputs) {
    const Tensor* tensor = tensor_of(given, name);
    if (tensor == nullptr) continue;
    if (tensor->dims() != dims)
      return fail(ErrorCode::kInvalidArgument, "--shape {}={}: the file of --input has {}", name,
                  dims_text(dims), dims_text(tensor->dims()));
    if (!given.compiles)
      return fail(ErrorCode::kInvalidArgument,
                  "--shape {}={} has no effect: the input comes from a file (--input)", name,
                  dims_text(dims));
  }
  return {};
}

}  // namespace ctxgen::cli
