#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/base/tensor.h"

#include "plan/plan.h"
#include "run/run_lengths.h"

namespace ctxgen::onednn {

/// Plans for shapes met at run time: the most recently used ones are kept, each is made once.
///
/// Threads   get() may be called from several threads. The lock is never held while a plan is made:
///           a thread waits only for the plan that it needs itself. Plans are shared: one that is
///           dropped here lives on while a run uses it, and is found again as long as it does.
class PlanCache {
 public:
  using PlanPtr = std::shared_ptr<const Plan>;
  using Make = std::function<Result<PlanPtr>()>;
  struct Counters {
    std::uint64_t made = 0;        // plans made, failures not counted
    std::uint64_t primitives = 0;  // of those
    std::uint64_t dropped = 0;     // given up for more recent ones
    std::uint64_t waits = 0;       // calls that found their plan being made by another thread
    std::uint64_t kept = 0;        // now
  };

  /// Keeps `capacity` plans, at least one. A plan serves all inputs that differ from its own in what
  /// `lengths` calls numbers of a run only.
  explicit PlanCache(std::size_t capacity, RunLengths lengths = {})
      : capacity_(std::max<std::size_t>(capacity, 1)), lengths_(std::move(lengths)) {}

  /// The plan for these inputs, from `make` if there is none. What `make` fails with goes to every
  /// thread that waits for it, and is not remembered.
  [[nodiscard]] Result<PlanPtr> get(std::span<const TensorView> inputs, const Make& make);
  [[nodiscard]] Counters counters() const;

 private:
  struct Pending {
    std::vector<Dims> dims;
    std::shared_future<Result<PlanPtr>> plan;
  };
  [[nodiscard]] PlanPtr find(std::span<const TensorView> inputs);
  void keep(const PlanPtr& plan);

  const std::size_t capacity_;
  const RunLengths lengths_;
  mutable std::mutex mutex_;  // guards all below
  std::list<PlanPtr> kept_;   // most recently used first
  std::vector<std::weak_ptr<const Plan>> dropped_;
  std::list<Pending> pending_;
  Counters counters_;
};

}  // namespace ctxgen::onednn
