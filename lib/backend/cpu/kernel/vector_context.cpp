#include "kernel/vector_context.h"

#include <algorithm>

#include "ctxgen/base/checked.h"

#include "kernel/string_memory.h"

namespace ctxgen::cpu {
namespace {

// Bytes that a new tensor takes at most, or nothing where that overflows. Kernels that move strings
// copy them: each output element is at most as long as the longest string given.
std::optional<std::uint64_t> memory_of(DataType type, const Dims& dims,
                                       std::span<const RuntimeValue> inputs) {
  if (type != DataType::kString) return checked_size_bytes(type, dims);
  std::uint64_t longest = 0;
  for (const RuntimeValue& input : inputs)
    if (input.is_tensor() && input.tensor().is_string())
      longest = std::max(longest, longest_of(input.tensor().strings()));
  return bytes_of_strings(dims, longest);
}

}  // namespace

VectorContext::VectorContext(const Node& node, std::vector<std::optional<Tensor>> inputs,
                             const NodeBudget& budget)
    : node_(node),
      outputs_(node.outputs.size()),
      budget_bytes_(budget.output_bytes),
      memory_(std::make_shared<MemoryAccount>(budget.output_bytes.value_or(UINT64_MAX))) {
  if (budget.scratch_bytes) {
    scratch_.emplace(*budget.scratch_bytes);
    temporaries_ = std::make_shared<MemoryAccount>(*budget.scratch_bytes);
  }
  for (auto& input : inputs)
    inputs_.push_back(input ? RuntimeValue(std::move(*input)) : RuntimeValue());
}

Result<Tensor*> VectorContext::make_output(std::size_t index, DataType type, const Dims& dims) {
  if (index >= outputs_.size())
    return fail(ErrorCode::kInvalidGraph, "has {} outputs, its operator makes more",
                outputs_.size());
  const auto bytes = memory_of(type, dims, inputs_);
  if (budget_bytes_ && (!bytes || *bytes > *budget_bytes_ - allocated_bytes_))
    return fail(ErrorCode::kResourceLimit, "an output {} {} does not fit into {} bytes",
                name_of(type), to_string(dims), *budget_bytes_ - allocated_bytes_);
  outputs_[index] = CTXGEN_TRY(Tensor::allocate(type, dims));
  allocated_bytes_ += bytes.value_or(0);
  return &outputs_[index].tensor();
}

Result<Tensor> VectorContext::make_tensor(DataType type, const Dims& dims) {
  if (!temporaries_) return Tensor::allocate(type, dims);
  struct Counted {
    MemoryCharge charge;
    Tensor tensor;
  };
  auto counted = std::make_shared<Counted>(Counted{MemoryCharge(temporaries_), Tensor()});
  CTXGEN_CHECK(counted->charge.resize(memory_of(type, dims, inputs_).value_or(UINT64_MAX)));
  counted->tensor = CTXGEN_TRY(Tensor::allocate(type, dims));
  const Tensor& tensor = counted->tensor;
  const void* data = tensor.owner().get();
  return Tensor::borrow(type, dims, std::shared_ptr<const void>(counted, data), tensor.bytes());
}

void VectorContext::set_output(std::size_t index, Tensor tensor) {
  set_value(index, std::move(tensor));
}

void VectorContext::set_value(std::size_t index, RuntimeValue value) {
  if (index < outputs_.size()) outputs_[index] = std::move(value);
}

Result<std::vector<Tensor>> VectorContext::take_outputs() {
  std::vector<Tensor> tensors;
  for (RuntimeValue& output : outputs_) {
    if (output.defined() && !output.is_tensor())
      return fail(ErrorCode::kUnsupported, "{}: output {} is not a tensor, but {}",
                  node_.describe(), tensors.size(), ctxgen::describe(output));
    tensors.push_back(output.defined() ? std::move(output.tensor()) : Tensor());
  }
  return tensors;
}

Result<std::vector<std::optional<Tensor>>> aligned_inputs(std::span<const Tensor* const> inputs) {
  std::vector<std::optional<Tensor>> aligned;
  for (const Tensor* input : inputs) {
    aligned.emplace_back();
    if (input != nullptr) aligned.back() = CTXGEN_TRY(input->aligned());
  }
  return aligned;
}

}  // namespace ctxgen::cpu
