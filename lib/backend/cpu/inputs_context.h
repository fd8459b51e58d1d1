#pragma once

#include <utility>
#include <vector>

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {

/// Shows a kernel other inputs than the context that it writes its outputs to.
class InputsContext final : public KernelContext {
 public:
  /// `inputs` must outlive the context; nullptr: absent.
  InputsContext(KernelContext& outer, std::vector<const Tensor*> inputs)
      : outer_(outer), inputs_(std::move(inputs)) {}

  [[nodiscard]] std::size_t input_count() const override { return inputs_.size(); }
  [[nodiscard]] const Tensor* input(std::size_t index) const override { return inputs_[index]; }
  [[nodiscard]] std::size_t output_count() const override { return outer_.output_count(); }
  [[nodiscard]] bool output_wanted(std::size_t index) const override {
    return outer_.output_wanted(index);
  }
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override {
    return outer_.make_output(index, type, dims);
  }
  void set_output(std::size_t index, Tensor tensor) override {
    outer_.set_output(index, std::move(tensor));
  }

 private:
  KernelContext& outer_;
  std::vector<const Tensor*> inputs_;
};

}  // namespace ctxgen::cpu
