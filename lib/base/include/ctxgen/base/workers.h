#pragma once

#include <cstdint>

#include "ctxgen/base/function_ref.h"

namespace ctxgen {

/// Runs independent calls at once. Code that computes takes a Workers& and knows neither whose
/// threads these are nor how many.
class Workers {
 public:
  /// Must not throw, and must not depend on the thread or the order in which it is called.
  using Task = FunctionRef<void(std::int64_t)>;

  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  virtual ~Workers() = default;

  /// Calls task(i) once for each i in [0, count); returns when all calls have ended. What they wrote
  /// is visible to the caller then.
  ///
  /// Threads  may be called from several threads at once, but not from within a task.
  virtual void parallel_for(std::int64_t count, Task task) = 0;
};

/// Calls tasks in order on the calling thread.
class OneThread final : public Workers {
 public:
  void parallel_for(std::int64_t count, Task task) override {
    for (std::int64_t i = 0; i < count; ++i) task(i);
  }
};

/// Threads that are started for each call, each taking the next index when it has finished one: for
/// few and long calls of unequal length.
class StartedThreads final : public Workers {
 public:
  /// `threads` counts the calling one; 64 at most are used. Fewer run where the system refuses more.
  explicit StartedThreads(std::int64_t threads) : threads_(threads) {}
  void parallel_for(std::int64_t count, Task task) override;

 private:
  std::int64_t threads_;
};

}  // namespace ctxgen
