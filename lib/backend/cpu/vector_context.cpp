#include "vector_context.h"

#include "ctxgen/base/checked.h"

namespace ctxgen::cpu {
namespace {

// Bytes that a new tensor takes, or nothing where that overflows.
std::optional<std::uint64_t> memory_of(DataType type, const Dims& dims) {
  if (type != DataType::kString) return checked_size_bytes(type, dims);
  const auto count = checked_element_count(dims);
  return count ? checked_mul(*count, sizeof(std::string)) : std::nullopt;
}

}  // namespace

VectorContext::VectorContext(const Node& node, std::vector<std::optional<Tensor>> inputs,
                             std::optional<std::uint64_t> budget_bytes)
    : node_(node),
      inputs_(std::move(inputs)),
      outputs_(node.outputs.size()),
      budget_bytes_(budget_bytes) {}

Result<Tensor*> VectorContext::make_output(std::size_t index, DataType type, const Dims& dims) {
  if (index >= outputs_.size())
    return fail(ErrorCode::kInvalidGraph, "has {} outputs, its operator makes more",
                outputs_.size());
  const auto bytes = memory_of(type, dims);
  if (budget_bytes_ && (!bytes || *bytes > *budget_bytes_ - allocated_bytes_))
    return fail(ErrorCode::kResourceLimit, "an output {} {} does not fit into {} bytes",
                name_of(type), to_string(dims), *budget_bytes_ - allocated_bytes_);
  outputs_[index] = CTXGEN_TRY(Tensor::allocate(type, dims));
  allocated_bytes_ += bytes.value_or(0);
  return &outputs_[index];
}

void VectorContext::set_output(std::size_t index, Tensor tensor) {
  if (index < outputs_.size()) outputs_[index] = std::move(tensor);
}

Result<std::vector<std::optional<Tensor>>> aligned_inputs(
    std::span<const Tensor* const> inputs) {
  std::vector<std::optional<Tensor>> aligned;
  for (const Tensor* input : inputs) {
    aligned.emplace_back();
    if (input != nullptr) aligned.back() = CTXGEN_TRY(input->aligned());
  }
  return aligned;
}

}  // namespace ctxgen::cpu
