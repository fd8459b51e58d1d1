#include "run/team_threads.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "plan/omp_workers.h"

namespace ctxgen::onednn {
namespace {

/// A runner beyond the first one ends after so long without a call: its team is counted.
constexpr std::chrono::milliseconds kIdleTime{100};

constinit thread_local bool t_has_team = false;
constinit thread_local char t_token = 0;  // its address tells threads apart

cpu_set_t affinity_of_caller() {
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  if (sched_getaffinity(0, sizeof(affinity), &affinity) != 0) CPU_ZERO(&affinity);
  return affinity;
}

/// Signals are for the application's threads; threads inherit what is blocked.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    changed_ = pthread_sigmask(SIG_SETMASK, &all, &before_) == 0;
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() {
    if (changed_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t before_;
  bool changed_;
};

/// One thread's word to another, which sleeps until then. Not std::binary_semaphore: before it sleeps it yields, so it stays
/// runnable next to the team, and the system may put both threads of a team on one core to make room for it.
class Signal {
 public:
  void give() {
    {
      const std::lock_guard lock(mutex_);
      given_ = true;
    }
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return given_; });
    given_ = false;
  }
  /// False: none was given in that time.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    const bool was_given = changed_.wait_for(lock, time, [this] { return given_; });
    given_ = false;
    return was_given;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
};

}  // namespace

struct TeamThreads::Runner {
  cpu_set_t affinity;
  const Task* task = nullptr;  // nullptr when given: end
  std::exception_ptr thrown;
  Signal given, done;
  std::thread thread;
};

std::shared_ptr<TeamThreads> TeamThreads::of_process() {
  static constinit std::mutex mutex;
  static std::weak_ptr<TeamThreads> shared;
  const std::lock_guard lock(mutex);
  auto threads = shared.lock();
  if (!threads) shared = threads = std::make_shared<TeamThreads>();
  return threads;
}

TeamThreads& TeamThreads::of_forked_process() {
  static constinit std::atomic<TeamThreads*> current = nullptr;
  TeamThreads* threads = current.load();
  if (threads != nullptr && threads->process_ == getpid()) return *threads;
  // One of the process's parent stays in memory: its threads are not here to be joined. The thread that
  // forked may have had a team, which is not here either, so that none settles.
  auto* const made = new TeamThreads(false);
  if (current.compare_exchange_strong(threads, made)) return *made;
  delete made;  // another thread was first
  return *threads;
}

TeamThreads::TeamThreads(bool may_settle) : process_(getpid()), may_settle_(may_settle) {}

TeamThreads::~TeamThreads() {
  if (getpid() != process_) {  // none of the threads is in this process
    for (auto* list : {&runners_, &ending_})
      for (auto& runner : *list) (void)runner.release();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    end_idle();
  }
  for (const auto& runner : ending_) runner->thread.join();
}

void TeamThreads::run(Task task) {
  if (getpid() != process_) {
    of_forked_process().run(task);
    return;
  }
  Runner* const runner = t_has_team ? nullptr : take();
  if (runner == nullptr) {
    task();
    return;
  }
  runner->task = &task;
  runner->given.give();
  runner->done.wait();
  const std::exception_ptr thrown = std::exchange(runner->thrown, nullptr);
  give_back(*runner);
  if (thrown) std::rethrow_exception(thrown);
}

std::size_t TeamThreads::threads() const {
  const std::lock_guard lock(mutex_);
  return runners_.size();
}

TeamThreads::Runner* TeamThreads::take() {
  cpu_set_t affinity;
  std::vector<std::unique_ptr<Runner>> ended;
  Runner* runner = nullptr;
  bool had_team = false;
  {
    const std::lock_guard lock(mutex_);
    had_team = settled_ == &t_token;
    if (settles()) return nullptr;
    if (had_team) settled_ = nullptr;
    affinity = affinity_of_caller();
    const auto fits = [&](const Runner* r) { return CPU_EQUAL(&r->affinity, &affinity); };
    const auto found = std::find_if(idle_.rbegin(), idle_.rend(), fits);
    if (found != idle_.rend()) {
      runner = *found;
      idle_.erase(std::next(found).base());
    }
    std::ranges::move(ending_, std::back_inserter(ended));
    ending_.clear();
  }
  for (const auto& gone : ended) gone->thread.join();
  if (had_team) release_omp_team();
  return runner != nullptr ? runner : start(affinity);
}

bool TeamThreads::settles() {
  calls_in_row_ = last_ == &t_token ? calls_in_row_ + 1 : 1;
  last_ = &t_token;
  if (!may_settle_ || calls_in_row_ <= kSettled) return false;
  settled_ = &t_token;
  end_idle();
  return true;
}

TeamThreads::Runner* TeamThreads::start(const cpu_set_t& affinity) {
  try {
    auto runner = std::make_unique<Runner>();
    runner->affinity = affinity;
    Runner* const started = runner.get();
    const std::lock_guard lock(mutex_);
    runners_.reserve(runners_.size() + 1);
    idle_.reserve(runners_.size() + 1);  // so that lists move without memory
    ending_.reserve(ending_.size() + runners_.size() + 1);
    const NoSignals scope;
    runner->thread = std::thread([this, started] { serve(*started); });
    runners_.push_back(std::move(runner));
    return started;
  } catch (const std::exception&) {
    return nullptr;  // without memory or threads: the caller computes
  }
}

void TeamThreads::give_back(Runner& runner) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(&runner);
}

void TeamThreads::serve(Runner& runner) {
  t_has_team = true;
  while (true) {
    if (!runner.given.wait_for(kIdleTime)) {
      if (retire(runner)) return;
      continue;
    }
    if (runner.task == nullptr) return;
    try {
      (*runner.task)();
    } catch (...) {
      runner.thrown = std::current_exception();
    }
    runner.done.give();
  }
}

bool TeamThreads::retire(Runner& runner) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(idle_, &runner);
  if (found == idle_.end() || (runners_.size() == 1 && settled_ == nullptr)) return false;
  idle_.erase(found);
  const auto owner = std::ranges::find(runners_, &runner, &std::unique_ptr<Runner>::get);
  ending_.push_back(std::move(*owner));
  runners_.erase(owner);
  return true;
}

void TeamThreads::end_idle() {
  for (Runner* const runner : idle_) {
    const auto owner = std::ranges::find(runners_, runner, &std::unique_ptr<Runner>::get);
    ending_.push_back(std::move(*owner));
    runners_.erase(owner);
    runner->task = nullptr;
    runner->given.give();
  }
  idle_.clear();
}

Team::Team(int threads)
    : threads_(threads), all_(threads > 1 ? TeamThreads::of_process() : nullptr) {}

void Team::run(TeamThreads::Task task) const {
  const auto with_threads = [&] {
    const OmpThreads scope(threads_);
    task();
  };
  if (all_ == nullptr) return with_threads();
  all_->run(with_threads);
}

void TeamWorkers::parallel_for(std::int64_t count, Task task) {
  called_ = true;
  team_.run([&] { workers_.parallel_for(count, task); });
}

}  // namespace ctxgen::onednn
