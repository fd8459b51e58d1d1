#pragma once

#include <memory>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

#include "run/execution.h"
#include "run/plan_cache.h"
#include "run/team_threads.h"
#include "run/weight_bank.h"

namespace ctxgen::onednn {

/// A loaded program: its weights, its stored plans, and plans made at run time for other shapes.
///
/// Threads  run() may be called from several threads, each with its own state; see PlanCache for
///          what happens when they meet new shapes.
class OnednnExecutable final : public Executable {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OnednnExecutable>> load(
      std::shared_ptr<const Program> program, const BlobSource& blobs, const LoadOptions& options,
      LoadStatistics* statistics);
  [[nodiscard]] Result<std::unique_ptr<ExecutionState>> make_state() const override;
  [[nodiscard]] Status run(ExecutionState& state, std::span<const TensorView> inputs,
                           OutputAllocator& outputs,
                           const ExecutionControl& control) const override;

  [[nodiscard]] PlanStatistics plan_statistics() const override;
  [[nodiscard]] std::span<const CachePair> caches() const override { return caches_; }
  [[nodiscard]] std::size_t input_count() const { return program_->inputs.size(); }
  /// In the order of Program::plans.
  [[nodiscard]] std::span<const std::shared_ptr<const Plan>> stored_plans() const {
    return stored_;
  }

 private:
  OnednnExecutable(std::shared_ptr<const Program> program, const LoadOptions& options);
  [[nodiscard]] Result<std::shared_ptr<const Plan>> plan_for(
      std::span<const TensorView> inputs) const;
  [[nodiscard]] Result<std::shared_ptr<const Plan>> new_plan(
      std::span<const Dims> input_dims, std::span<const PlanChoice> choices) const;
  /// Puts inputs and outputs of a run where `bound` reads and writes them.
  [[nodiscard]] Status place(OnednnState& state, BoundPlan& bound,
                             std::span<const TensorView> inputs, OutputAllocator& outputs) const;
  /// Whether a run that writes an output there may overwrite what it reads later.
  [[nodiscard]] bool overwrites_input(std::size_t output, const Dims& dims,
                                      std::span<const std::byte> bytes,
                                      std::span<const TensorView> inputs) const;
  [[nodiscard]] Status run_step(const BoundPlan& bound, std::size_t step,
                                const dnnl::stream& stream, Workers& workers,
                                const ExecutionControl& control) const;
  /// Runs the steps that need no team in the calling thread, and the others in the team's.
  [[nodiscard]] Status run_steps(BoundPlan& bound, const dnnl::stream& stream,
                                 const ExecutionControl& control) const;

  const int threads_;
  Workers& workers_;
  const Team team_;
  const std::size_t kept_plans_;
  std::shared_ptr<const Program> program_;
  const RunLengths lengths_;
  std::vector<CachePair> caches_;
  std::unique_ptr<WeightBank> bank_;
  std::vector<std::shared_ptr<const Plan>> stored_;
  mutable PlanCache recent_;
};

}  // namespace ctxgen::onednn
