#pragma once

#include <memory>
#include <utility>

#include "ctxgen/cpu/kernel.h"

namespace ctxgen::cpu {

/// A context in front of another one, for a kernel of tensors that runs inside a kernel: all goes
/// through but what a derived class shows otherwise, so that memory is the run's and counts. Values
/// that are not tensors stay out of sight: a derived class may show other inputs.
class ForwardingContext : public KernelContext {
 public:
  /// `inner` must outlive the context.
  explicit ForwardingContext(KernelContext& inner) : inner_(inner) {}

  [[nodiscard]] std::size_t input_count() const override { return inner_.input_count(); }
  [[nodiscard]] const Tensor* input(std::size_t index) const override {
    return inner_.input(index);
  }
  [[nodiscard]] std::size_t output_count() const override { return inner_.output_count(); }
  [[nodiscard]] bool output_wanted(std::size_t index) const override {
    return inner_.output_wanted(index);
  }
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override {
    return inner_.make_output(index, type, dims);
  }
  void set_output(std::size_t index, Tensor tensor) override {
    inner_.set_output(index, std::move(tensor));
  }
  [[nodiscard]] Result<ScratchVector<RuntimeValue>> run_body(
      const Graph& graph, std::span<RuntimeValue> arguments) override {
    return inner_.run_body(graph, arguments);
  }
  [[nodiscard]] Result<Tensor> make_tensor(DataType type, const Dims& dims) override {
    return inner_.make_tensor(type, dims);
  }
  void recycle(RuntimeValue value) override { inner_.recycle(std::move(value)); }
  [[nodiscard]] std::shared_ptr<MemoryAccount> memory() const override { return inner_.memory(); }
  [[nodiscard]] Scratch* scratch() override { return inner_.scratch(); }
  [[nodiscard]] const std::atomic<bool>* stop() const override { return inner_.stop(); }

 protected:
  [[nodiscard]] KernelContext& inner() { return inner_; }
  [[nodiscard]] const KernelContext& inner() const { return inner_; }

 private:
  KernelContext& inner_;
};

}  // namespace ctxgen::cpu
