#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "kernel/function_kernel.h"

// For kernels of sequences, optionals and maps, and of nodes with subgraphs.

namespace ctxgen::cpu {

/// A kernel made of a lambda whose inputs may be of any kind.
template <class F>
class ValueKernel final : public Kernel {
 public:
  explicit ValueKernel(F f) : f_(std::move(f)) {}
  [[nodiscard]] Status run(KernelContext& context) const override { return f_(context); }
  [[nodiscard]] bool takes_values() const override { return true; }

 private:
  F f_;
};
template <class F>
[[nodiscard]] KernelResult value_kernel(F f) {
  return std::make_unique<ValueKernel<F>>(std::move(f));
}

/// The input of any kind, which must be there. Errors: INVALID_GRAPH.
[[nodiscard]] Result<const RuntimeValue*> required_value(const KernelContext& context,
                                                         std::size_t index);
/// nullptr for an absent input, also beyond the last one.
[[nodiscard]] const RuntimeValue* optional_value(const KernelContext& context, std::size_t index);
/// The input, which must be a sequence.
[[nodiscard]] Result<const SequenceValue*> required_sequence(const KernelContext& context,
                                                             std::size_t index);
/// A value that must be a tensor, say an output of a body. Errors: INVALID_GRAPH naming `what`.
[[nodiscard]] Result<const Tensor*> tensor_of(const RuntimeValue& value, std::string_view what);
/// The one element of a tensor of bools.
[[nodiscard]] Result<bool> bool_of(const RuntimeValue& value, std::string_view what);

/// The graph that an attribute holds. Errors: INVALID_GRAPH.
[[nodiscard]] Result<std::shared_ptr<const Graph>> graph_attribute(const Node& node,
                                                                   std::string_view name);
/// An empty tensor of a type: for outputs that no iteration made. `lead`: dims before those of the
/// type; dims that the type leaves open are 0. Errors: INVALID_GRAPH for a type without elements.
[[nodiscard]] Status make_empty_output(KernelContext& context, std::size_t index,
                                       const ValueType& type, const Dims& lead,
                                       std::size_t axis = 0);

}  // namespace ctxgen::cpu
