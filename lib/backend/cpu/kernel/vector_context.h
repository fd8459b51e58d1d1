#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {

/// What a single node may take.
struct NodeBudget {
  std::optional<std::uint64_t> output_bytes{};   // together; nothing: no limit of its own
  std::optional<std::uint64_t> scratch_bytes{};  // vectors, and as much again in tensors
};

/// The context of a single node on given tensors.
class VectorContext final : public KernelContext {
 public:
  VectorContext(const Node& node, std::vector<std::optional<Tensor>> inputs,
                const NodeBudget& budget = {});

  [[nodiscard]] std::size_t input_count() const override { return inputs_.size(); }
  [[nodiscard]] const Tensor* input(std::size_t index) const override {
    return inputs_[index].is_tensor() ? &inputs_[index].tensor() : nullptr;
  }
  [[nodiscard]] std::size_t output_count() const override { return outputs_.size(); }
  [[nodiscard]] bool output_wanted(std::size_t index) const override {
    return index < outputs_.size() && node_.outputs[index].valid();
  }
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override;
  void set_output(std::size_t index, Tensor tensor) override;
  [[nodiscard]] const RuntimeValue* value(std::size_t index) const override {
    return index < inputs_.size() && inputs_[index].defined() ? &inputs_[index] : nullptr;
  }
  void set_value(std::size_t index, RuntimeValue value) override;
  [[nodiscard]] Result<Tensor> make_tensor(DataType type, const Dims& dims) override;
  [[nodiscard]] std::shared_ptr<MemoryAccount> memory() const override { return memory_; }
  [[nodiscard]] Scratch* scratch() override { return scratch_ ? &*scratch_ : nullptr; }

  /// Errors  UNSUPPORTED for an output that is not a tensor.
  [[nodiscard]] Result<std::vector<Tensor>> take_outputs();
  [[nodiscard]] std::uint64_t allocated_bytes() const { return allocated_bytes_; }

 private:
  const Node& node_;
  std::optional<Scratch> scratch_;  // outlives what was taken from it
  std::vector<RuntimeValue> inputs_;
  std::vector<RuntimeValue> outputs_;
  std::optional<std::uint64_t> budget_bytes_;
  std::shared_ptr<MemoryAccount> memory_;
  std::shared_ptr<MemoryAccount> temporaries_;  // tensors that are not outputs
  std::uint64_t allocated_bytes_ = 0;
};

/// Aligned copies of the inputs where they are not aligned; nullptr stays absent.
[[nodiscard]] Result<std::vector<std::optional<Tensor>>> aligned_inputs(
    std::span<const Tensor* const> inputs);

}  // namespace ctxgen::cpu
