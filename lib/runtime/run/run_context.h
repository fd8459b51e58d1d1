#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ctxgen/runtime/run_context.h"

#include "run/executor.h"
#include "run/inputs.h"
#include "run/kept_state.h"

namespace ctxgen {

/// A run context of a loaded session, whose parts it borrows.
class SessionContext final : public RunContext {
 public:
  SessionContext(const InputTable& inputs, std::span<const IoInfo> outputs,
                 const GraphExecutor& executor, std::span<const KeptPair> pairs,
                 std::uint64_t max_run_bytes);

  [[nodiscard]] Status set_input(std::size_t index, RuntimeValue value) override;
  [[nodiscard]] Status set_output(std::size_t index, std::span<std::byte> memory) override;
  [[nodiscard]] Status set_state(ModelState* state) override;
  [[nodiscard]] Status run(std::vector<OpTiming>* timings) override;
  [[nodiscard]] std::span<const RuntimeValue> outputs() const override { return results_; }
  [[nodiscard]] std::uint64_t allocated_bytes() const override;
  void stop() override { stop_ = true; }

 private:
  void prepare();
  [[nodiscard]] Status check_overlaps() const;
  [[nodiscard]] Status check_unstated() const;
  /// Puts the state's values among the inputs, and its memory among that of outputs.
  [[nodiscard]] Status give_state();
  void end_state();
  [[nodiscard]] Status run_bound(const RunControl& control);
  [[nodiscard]] Status run_stated(const RunControl& control);
  [[nodiscard]] Status keep_outputs();

  const InputTable& inputs_;
  const std::span<const IoInfo> outputs_;
  const GraphExecutor& executor_;
  const std::span<const KeptPair> pairs_;
  const std::uint64_t max_run_bytes_;
  std::vector<RuntimeValue> given_;    // by input
  std::vector<OutputMemory> memory_;   // by output
  std::vector<OutputMemory> written_;  // by output, with the state's, of the last run
  KeptState* kept_ = nullptr;
  std::vector<RuntimeValue> results_;
  std::vector<Binding> bindings_;
  std::unique_ptr<RunState> state_;  // null before the first run and after a failed one
  std::atomic<bool> running_ = false;
  std::atomic<bool> stop_ = false;
};

}  // namespace ctxgen
