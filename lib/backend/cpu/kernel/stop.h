#pragma once

#include <atomic>
#include <utility>

// How a run is stopped inside a kernel: those whose work is more than what their inputs and
// outputs hold look at run_stopped() in their outer loops.

namespace ctxgen::cpu {

/// While it lives, run_stopped() of the thread looks at `stop`; nullptr: never.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* stop)
      : stop_(stop), outer_(std::exchange(current_, this)) {}
  ~StopScope() { current_ = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  /// Whether run_stopped() said so: outputs are not complete.
  [[nodiscard]] bool seen() const { return seen_; }

 private:
  friend bool run_stopped();
  const std::atomic<bool>* stop_;
  bool seen_ = false;
  StopScope* outer_;
  static constinit inline thread_local StopScope* current_ = nullptr;
};

/// True: leave all loops. Outputs need not be written, the node ends with CANCELLED.
[[nodiscard]] inline bool run_stopped() {
  StopScope* scope = StopScope::current_;
  if (scope == nullptr || scope->stop_ == nullptr) return false;
  scope->seen_ = scope->seen_ || scope->stop_->load(std::memory_order_relaxed);
  return scope->seen_;
}

}  // namespace ctxgen::cpu
