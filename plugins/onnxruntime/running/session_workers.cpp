#include "running/session_workers.h"

#include <cstddef>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace ctxgen::plugin {
namespace {

// ONNX Runtime is not instrumented: the thread sanitizer has to be told that its loops synchronise.
#if defined(__SANITIZE_THREAD__)
void release(void* point) { __tsan_release(point); }
void acquire(void* point) { __tsan_acquire(point); }
#else
void release(void* /*point*/) {}
void acquire(void* /*point*/) {}
#endif

struct Loop {
  Workers::Task task;
  char start = 0, end = 0;
};

void call(void* user, std::size_t index) {
  auto& loop = *static_cast<Loop*>(user);
  acquire(&loop.start);
  loop.task(static_cast<std::int64_t>(index));
  release(&loop.end);
}

}  // namespace

void SessionWorkers::parallel_for(std::int64_t count, Task task) {
  if (count <= 0) return;
  Loop loop{.task = task};
  release(&loop.start);
  constexpr std::size_t kAsManyBatchesAsThreads = 0;
  OrtStatus* status = api_.KernelContext_ParallelFor(
      &context_, call, static_cast<std::size_t>(count), kAsManyBatchesAsThreads, &loop);
  acquire(&loop.end);
  if (status == nullptr) return;
  api_.ReleaseStatus(status);
  failed_.store(true, std::memory_order_relaxed);
}

}  // namespace ctxgen::plugin
