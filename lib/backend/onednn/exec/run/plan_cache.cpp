#include "run/plan_cache.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "ctxgen/base/boundary.h"

namespace ctxgen::onednn {

PlanCache::PlanPtr PlanCache::find(std::span<const TensorView> inputs) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it)
    if (lengths_.fit((*it)->input_dims, inputs)) {
      kept_.splice(kept_.begin(), kept_, it);
      return kept_.front();
    }
  // A plan that runs somewhere still is not made a second time.
  for (const std::weak_ptr<const Plan>& weak : dropped_) {
    PlanPtr plan = weak.lock();
    if (plan == nullptr || !lengths_.fit(plan->input_dims, inputs)) continue;
    std::erase_if(dropped_, [&](const auto& other) { return other.lock() == plan; });
    keep(plan);
    return plan;
  }
  return nullptr;
}

void PlanCache::keep(const PlanPtr& plan) {
  kept_.push_front(plan);
  if (kept_.size() <= capacity_) return;
  std::erase_if(dropped_, [](const auto& weak) { return weak.expired(); });
  dropped_.push_back(kept_.back());
  kept_.pop_back();
  counters_.dropped += 1;
}

Result<PlanCache::PlanPtr> PlanCache::get(std::span<const TensorView> inputs, const Make& make) {
  std::optional<std::promise<Result<PlanPtr>>> promise;  // it takes memory: only to make a plan
  std::list<Pending>::iterator own;
  {
    std::unique_lock lock(mutex_);
    if (PlanPtr plan = find(inputs)) return plan;
    for (const Pending& other : pending_) {
      if (!lengths_.fit(other.dims, inputs)) continue;
      const std::shared_future<Result<PlanPtr>> future = other.plan;
      counters_.waits += 1;
      lock.unlock();
      return future.get();
    }
    Pending pending;
    for (const TensorView& input : inputs) pending.dims.push_back(input.dims);
    pending.plan = promise.emplace().get_future().share();
    own = pending_.insert(pending_.end(), std::move(pending));
  }
  // Whatever happens, no thread may wait forever.
  Result<PlanPtr> plan = fail(ErrorCode::kInternal, "planning failed without a reason");
  try {
    plan = make();
  } catch (const std::exception& error) {
    plan = exception_status(ErrorCode::kResourceLimit, "planning", error.what());
  }
  {
    const std::lock_guard lock(mutex_);
    pending_.erase(own);
    if (plan) {
      counters_.made += 1;
      counters_.primitives += (*plan)->primitives;
      keep(*plan);
    }
  }
  promise->set_value(plan);
  return plan;
}

PlanCache::Counters PlanCache::counters() const {
  const std::lock_guard lock(mutex_);
  Counters now = counters_;
  now.kept = kept_.size();
  return now;
}

}  // namespace ctxgen::onednn
