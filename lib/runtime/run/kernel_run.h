#pragma once

#include <list>
#include <memory>

#include "run/executor.h"

namespace ctxgen {

/// What a kernel sees of the state of a run.
class GraphExecutor::KernelRun final : public cpu::KernelContext {
 public:
  KernelRun(const GraphExecutor& executor, const Step& step, RunState& state,
            const RunControl& control)
      : executor_(executor), step_(step), state_(state), control_(control) {}
  ~KernelRun() override;

  [[nodiscard]] std::size_t input_count() const override { return step_.inputs.size(); }
  [[nodiscard]] const Tensor* input(std::size_t index) const override;
  [[nodiscard]] std::size_t output_count() const override { return step_.outputs.size(); }
  [[nodiscard]] bool output_wanted(std::size_t index) const override {
    return index < step_.outputs.size() && step_.outputs[index].valid();
  }
  [[nodiscard]] Result<Tensor*> make_output(std::size_t index, DataType type,
                                            const Dims& dims) override;
  void set_output(std::size_t index, Tensor tensor) override;

  [[nodiscard]] const RuntimeValue* value(std::size_t index) const override;
  [[nodiscard]] RuntimeValue take(std::size_t index) override;
  void set_value(std::size_t index, RuntimeValue value) override;
  [[nodiscard]] Result<cpu::ScratchVector<RuntimeValue>> run_body(
      const Graph& graph, std::span<RuntimeValue> arguments) override;
  void recycle(RuntimeValue value) override { state_.pool->release(std::move(value)); }
  [[nodiscard]] Result<Tensor> make_tensor(DataType type, const Dims& dims) override {
    return state_.pool->allocate(type, dims);
  }
  [[nodiscard]] std::shared_ptr<MemoryAccount> memory() const override {
    return state_.pool->account();
  }
  [[nodiscard]] cpu::Scratch* scratch() override { return &state_.pool->scratch(); }
  [[nodiscard]] const std::atomic<bool>* stop() const override { return control_.stop; }

 private:
  [[nodiscard]] Status check_strings(const Dims& dims) const;
  [[nodiscard]] RunState& bound_state(const Body& body);

  const GraphExecutor& executor_;
  const Step& step_;
  RunState& state_;
  const RunControl& control_;
  std::list<Tensor, cpu::ScratchAllocator<Tensor>> unwanted_;  // outputs that only the kernel wants
  cpu::ScratchVector<const Body*> bound_;                      // their states hold captured values
};

}  // namespace ctxgen
