#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "execution.h"

namespace ctxgen::onednn {

/// A loaded program: its weights, its stored plans, and plans made at run time for other shapes.
///
/// Threads  run() may be called from several threads, each with its own state; planning for a new
///          shape is done by one thread at a time.
class OnednnExecutable final : public Executable {
 public:
  [[nodiscard]] static Result<std::unique_ptr<OnednnExecutable>> load(const Program& program,
                                                                      const BlobSource& blobs,
                                                                      int threads,
                                                                      LoadStatistics* statistics);
  [[nodiscard]] Result<std::unique_ptr<ExecutionState>> make_state() const override;
  [[nodiscard]] Status run(ExecutionState& state, std::span<const TensorView> inputs,
                           OutputAllocator& outputs,
                           std::vector<OpTiming>* timings) const override;

 private:
  OnednnExecutable() = default;
  [[nodiscard]] Result<std::shared_ptr<const Plan>> plan_for(
      std::span<const TensorView> inputs) const;
  [[nodiscard]] Result<std::shared_ptr<const Plan>> new_plan(
      std::span<const Dims> input_dims, std::span<const std::uint16_t> choices) const;
  [[nodiscard]] Status run_timed(const BoundPlan& bound, const dnnl::stream& stream,
                                 std::vector<OpTiming>& timings) const;

  static constexpr std::size_t kMostPlans = 8;
  Program program_;  // without plans
  std::unique_ptr<WeightBank> bank_;
  int threads_ = 1;
  std::vector<std::shared_ptr<const Plan>> stored_;
  mutable std::mutex mutex_;  // guards recent_
  mutable std::list<std::shared_ptr<const Plan>> recent_;  // most recently used first
};

}  // namespace ctxgen::onednn
