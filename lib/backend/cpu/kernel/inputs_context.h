#pragma once

#include <utility>
#include <vector>

#include "kernel/forwarding_context.h"

namespace ctxgen::cpu {

/// Shows a kernel other inputs than the context that it writes its outputs to.
class InputsContext final : public ForwardingContext {
 public:
  /// `inputs` must outlive the context; nullptr: absent.
  InputsContext(KernelContext& outer, std::vector<const Tensor*> inputs)
      : ForwardingContext(outer), inputs_(std::move(inputs)) {}

  [[nodiscard]] std::size_t input_count() const override { return inputs_.size(); }
  [[nodiscard]] const Tensor* input(std::size_t index) const override { return inputs_[index]; }

 private:
  std::vector<const Tensor*> inputs_;
};

}  // namespace ctxgen::cpu
