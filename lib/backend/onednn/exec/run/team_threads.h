#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/workers.h"

namespace ctxgen::onednn {

/// Threads in which calls with OpenMP teams run, so that a process has as many teams as such calls run at
/// a time, whichever threads the calls come from.
///
/// libgomp keeps a team for each thread that ever had one. Once the threads of all teams, waiting ones
/// included, are more than the cores, teams sleep at their barriers instead of spinning
/// (gomp_managed_threads in its team.c): a server with threads for requests would run at half its speed.
///
/// Threads  all members may be called from several threads at once.
class TeamThreads {
 public:
  using Task = FunctionRef<void()>;

  /// Those of the process, which exist while someone holds them.
  [[nodiscard]] static std::shared_ptr<TeamThreads> of_process();

  TeamThreads() : TeamThreads(true) {}
  TeamThreads(const TeamThreads&) = delete;
  TeamThreads& operator=(const TeamThreads&) = delete;
  /// Requires  no call of run() is under way.
  ~TeamThreads();

  /// Calls `task` once and returns when it has ended, with its exception if it threw one. It runs in the
  /// calling thread if that is a team's or made the last kSettled calls alone, or if the system refuses a
  /// thread; else in one with the same affinity to processors. In a forked process, which has neither
  /// these threads nor the teams of its own, it runs in threads that this process starts.
  void run(Task task);

  /// Threads that were started and have not ended.
  [[nodiscard]] std::size_t threads() const;

  /// After so many calls in a row of one thread it has a team of its own: handing a call over takes 10
  /// to 30 us. Programs warm up with fewer calls than that, often in a thread that makes none later.
  static constexpr std::size_t kSettled = 64;

 private:
  struct Runner;
  explicit TeamThreads(bool may_settle);
  /// Those of a process that was forked. They stay until it ends.
  [[nodiscard]] static TeamThreads& of_forked_process();

  /// The runner of this call; nullptr: the calling thread.
  [[nodiscard]] Runner* take();
  /// Whether the calling thread has settled. Requires  mutex_ is held.
  [[nodiscard]] bool settles();
  [[nodiscard]] Runner* start(const cpu_set_t& affinity);
  void give_back(Runner& runner);
  /// Whether an idle runner ends, because another one or a settled thread is there.
  [[nodiscard]] bool retire(Runner& runner);
  void serve(Runner& runner);
  /// Moves idle runners to ended_. Requires  mutex_ is held.
  void end_idle();

  const pid_t process_;
  const bool may_settle_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::vector<Runner*> idle_;                    // the one that ran last at the end
  std::vector<std::unique_ptr<Runner>> ending_;  // not joined yet
  const void* last_ = nullptr;                   // the thread of the last call
  const void* settled_ = nullptr;                // the thread that has a team of its own
  std::size_t calls_in_row_ = 0;
};

/// What computes for one executable.
class Team {
 public:
  /// `threads` > 0: OpenMP threads of each call.
  explicit Team(int threads);
  /// Calls `task` once with that many, in the calling thread if it is one, else by TeamThreads::run().
  void run(TeamThreads::Task task) const;

 private:
  int threads_;
  std::shared_ptr<TeamThreads> all_;
};

/// Workers for a thread outside of the team, which each call is handed over from. Such a call costs more than a team's, so
/// that what follows one is better run by Team::run() as a whole.
class TeamWorkers final : public Workers {
 public:
  /// `workers` are those of the team. Both outlive this.
  TeamWorkers(const Team& team, Workers& workers) : team_(team), workers_(workers) {}
  void parallel_for(std::int64_t count, Task task) override;
  [[nodiscard]] bool called() const { return called_; }

 private:
  const Team& team_;
  Workers& workers_;
  bool called_ = false;
};

}  // namespace ctxgen::onednn
