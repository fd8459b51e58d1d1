#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/onednn/defaults.h"

#include "run/executable.h"

namespace ctxgen::onednn {

/// A program with overridable initializers: each run looks at the inputs that have defaults, and goes
/// the way of the packed defaults if all of them hold theirs, else the general one.
///
/// A default is known by its content, never by where it is: a caller may write to its memory between
/// runs. Only what ExecutionControl::constant_inputs vouches for is looked at once.
///
/// Threads  as OnednnExecutable.
class DefaultsExecutable final : public Executable {
 public:
  [[nodiscard]] static Result<std::unique_ptr<DefaultsExecutable>> load(SplitProgram split,
                                                                        const BlobSource& blobs,
                                                                        const LoadOptions& options,
                                                                        LoadStatistics* statistics);
  [[nodiscard]] Result<std::unique_ptr<ExecutionState>> make_state() const override;
  [[nodiscard]] Status run(ExecutionState& state, std::span<const TensorView> inputs,
                           OutputAllocator& outputs,
                           const ExecutionControl& control) const override;
  [[nodiscard]] PlanStatistics plan_statistics() const override;
  /// Those that both ways have.
  [[nodiscard]] std::span<const CachePair> caches() const override;

 private:
  /// What is known of an input whose content does not change.
  enum class Verdict : std::uint8_t { kUnknown, kDefault, kOverridden };

  DefaultsExecutable(std::vector<DefaultInput> defaults,
                     std::unique_ptr<OnednnExecutable> by_default,
                     std::unique_ptr<OnednnExecutable> general);
  [[nodiscard]] bool hold_defaults(std::span<const TensorView> inputs,
                                   const ExecutionControl& control) const;

  const std::vector<DefaultInput> defaults_;
  const std::unique_ptr<OnednnExecutable> by_default_, general_;
  mutable std::vector<std::atomic<Verdict>> verdicts_;  // as defaults_
};

}  // namespace ctxgen::onednn
