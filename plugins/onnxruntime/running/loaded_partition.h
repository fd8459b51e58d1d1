#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/ctxfile/executable.h"

namespace ctxgen::plugin {

/// A partition that is ready to run, and what its runs have taken: of one session, or of all sessions that it is the same for.
///
/// Threads  all members may be called from several threads at once.
class LoadedPartition {
 public:
  explicit LoadedPartition(std::unique_ptr<Executable> executable)
      : executable_(std::move(executable)) {}

  [[nodiscard]] const Executable& executable() const { return *executable_; }
  /// For one run: one that an earlier run gave back, or a new one.
  [[nodiscard]] Result<std::unique_ptr<ExecutionState>> take_state();
  void give_back(std::unique_ptr<ExecutionState> state);

  /// What tells partitions apart. Each session reads and verifies the manifest itself, so that what has the same key was
  /// read from the same bytes.
  struct Key {
    const void* context =
        nullptr;  // alive while a partition of it is: the mapped binary, or the reader of a group
    std::size_t program = 0;
    Hash128 hash;  // of the program
    int threads = 0;
    std::size_t kept_plans = 0;
    [[nodiscard]] auto operator<=>(const Key&) const = default;
  };
  using Load = std::function<Result<std::unique_ptr<Executable>>()>;
  /// The process's partition of that key: one that another session has, or what `load` makes; it lives while a session
  /// has it. Sessions that ask at the same time may each load; all but one of these are dropped.
  [[nodiscard]] static Result<std::shared_ptr<LoadedPartition>> shared(const Key& key,
                                                                       const Load& load);

 private:
  std::unique_ptr<Executable> executable_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<ExecutionState>> parked_;
};

}  // namespace ctxgen::plugin
