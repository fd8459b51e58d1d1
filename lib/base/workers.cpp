#include "ctxgen/base/workers.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace ctxgen {
namespace {

constexpr std::int64_t kMostThreads = 64;

/// Threads that run `work`, at most `wanted`; none where memory or the system refuses.
template <class Work>
void start_threads(std::vector<std::jthread>& threads, std::int64_t wanted, const Work& work) {
  try {
    threads.reserve(static_cast<std::size_t>(wanted));
    for (std::int64_t i = 0; i < wanted; ++i) threads.emplace_back(std::cref(work));
  } catch (const std::exception&) {
    return;  // those that run and the caller do the work
  }
}

}  // namespace

void StartedThreads::parallel_for(std::int64_t count, Task task) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t i = next++; i < count; i = next++) task(i);
  };
  std::vector<std::jthread> helpers;
  start_threads(helpers, std::min({threads_, count, kMostThreads}) - 1, work);
  work();
}

}  // namespace ctxgen
