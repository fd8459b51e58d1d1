#include "running/session_workers.h"

#include <cstddef>

#include "ctxgen/base/thread_sanitizer.h"

namespace ctxgen::plugin {
namespace {

/// ONNX Runtime, which runs it, is not instrumented.
struct Loop {
  Workers::Task task;
  char start = 0, end = 0;
};

void call(void* user, std::size_t index) {
  auto& loop = *static_cast<Loop*>(user);
  acquire_at(&loop.start);
  loop.task(static_cast<std::int64_t>(index));
  release_at(&loop.end);
}

}  // namespace

void SessionWorkers::parallel_for(std::int64_t count, Task task) {
  if (count <= 0) return;
  Loop loop{.task = task};
  release_at(&loop.start);
  constexpr std::size_t kAsManyBatchesAsThreads = 0;
  OrtStatus* status = api_.KernelContext_ParallelFor(
      &context_, call, static_cast<std::size_t>(count), kAsManyBatchesAsThreads, &loop);
  acquire_at(&loop.end);
  if (status == nullptr) return;
  api_.ReleaseStatus(status);
  failed_.store(true, std::memory_order_relaxed);
}

}  // namespace ctxgen::plugin
