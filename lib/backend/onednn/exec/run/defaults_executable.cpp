#include "run/defaults_executable.h"

#include <algorithm>
#include <utility>

namespace ctxgen::onednn {
namespace {

/// That of the general way is made when it is first taken.
struct DefaultsState final : ExecutionState {
  std::unique_ptr<ExecutionState> by_default, general;
  [[nodiscard]] std::uint64_t allocated_bytes() const override {
    return by_default->allocated_bytes() + (general == nullptr ? 0 : general->allocated_bytes());
  }
};

bool holds(const DefaultInput& expected, const TensorView& input) {
  return hash_bytes({input.data, input.size_bytes()}) == expected.content;
}

}  // namespace

DefaultsExecutable::DefaultsExecutable(std::vector<DefaultInput> defaults,
                                       std::unique_ptr<OnednnExecutable> by_default,
                                       std::unique_ptr<OnednnExecutable> general)
    : defaults_(std::move(defaults)),
      by_default_(std::move(by_default)),
      general_(std::move(general)),
      verdicts_(defaults_.size()) {}

Result<std::unique_ptr<DefaultsExecutable>> DefaultsExecutable::load(SplitProgram split,
                                                                     const BlobSource& blobs,
                                                                     const LoadOptions& options,
                                                                     LoadStatistics* statistics) {
  auto by_default = CTXGEN_TRY(OnednnExecutable::load(
      std::make_shared<const Program>(std::move(split.by_default)), blobs, options, statistics));
  auto general = CTXGEN_TRY(OnednnExecutable::load(
      std::make_shared<const Program>(std::move(split.general)), blobs, options, statistics));
  return std::unique_ptr<DefaultsExecutable>(
      new DefaultsExecutable(std::move(split.defaults), std::move(by_default), std::move(general)));
}

Result<std::unique_ptr<ExecutionState>> DefaultsExecutable::make_state() const {
  auto state = std::make_unique<DefaultsState>();
  state->by_default = CTXGEN_TRY(by_default_->make_state());
  return state;
}

bool DefaultsExecutable::hold_defaults(std::span<const TensorView> inputs,
                                       const ExecutionControl& control) const {
  for (std::size_t i = 0; i < defaults_.size(); ++i) {
    const DefaultInput& expected = defaults_[i];
    const TensorView& input = inputs[expected.input];
    const bool constant = expected.input < control.constant_inputs.size() &&
                          control.constant_inputs[expected.input] != 0;
    // Two threads that look at it at the same time find the same.
    Verdict verdict = constant ? verdicts_[i].load(std::memory_order_relaxed) : Verdict::kUnknown;
    if (verdict == Verdict::kUnknown) {
      verdict = holds(expected, input) ? Verdict::kDefault : Verdict::kOverridden;
      if (constant) verdicts_[i].store(verdict, std::memory_order_relaxed);
    }
    if (verdict == Verdict::kOverridden) return false;
  }
  return true;
}

Status DefaultsExecutable::run(ExecutionState& state, std::span<const TensorView> inputs,
                               OutputAllocator& outputs, const ExecutionControl& control) const {
  auto* own = dynamic_cast<DefaultsState*>(&state);
  if (own == nullptr) return fail(ErrorCode::kInternal, "program with defaults: foreign state");
  const bool complete = inputs.size() == by_default_->input_count();
  if (!complete || hold_defaults(inputs, control))
    return by_default_->run(*own->by_default, inputs, outputs, control);
  if (own->general == nullptr) own->general = CTXGEN_TRY(general_->make_state());
  return general_->run(*own->general, inputs, outputs, control);
}

std::span<const CachePair> DefaultsExecutable::caches() const {
  if (!std::ranges::equal(by_default_->caches(), general_->caches())) return {};
  return by_default_->caches();
}

PlanStatistics DefaultsExecutable::plan_statistics() const {
  PlanStatistics statistics = by_default_->plan_statistics();
  statistics += general_->plan_statistics();
  return statistics;
}

}  // namespace ctxgen::onednn
