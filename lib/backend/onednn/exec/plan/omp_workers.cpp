#include "plan/omp_workers.h"

#include <omp.h>

#include "ctxgen/base/thread_sanitizer.h"

namespace ctxgen::onednn {
namespace {

// libgomp is not instrumented: what it does at the start and the end of a parallel region is told.
class OmpWorkers final : public Workers {
 public:
  // Not instrumented: threads read what they share before acquire() could be called.
  [[gnu::no_sanitize_thread]] void parallel_for(std::int64_t count, Task task) override {
    if (count <= 1 || omp_get_max_threads() <= 1) {
      for (std::int64_t i = 0; i < count; ++i) task(i);
      return;
    }
    char start = 0, end = 0;
    release_at(&start);
#pragma omp parallel
    {
      acquire_at(&start);
#pragma omp for schedule(static) nowait  // all wait at the end of the region
      for (std::int64_t i = 0; i < count; ++i) task(i);
      release_at(&end);
    }
    acquire_at(&end);
  }
};

}  // namespace

OmpThreads::OmpThreads(int threads) : before_(omp_get_max_threads()) {
  if (before_ != threads) omp_set_num_threads(threads);
}
OmpThreads::~OmpThreads() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

// Where OpenMP cannot (within a region), the threads stay, which costs time only.
void release_omp_team() { (void)omp_pause_resource(omp_pause_soft, omp_get_initial_device()); }

Workers& omp_workers() {
  static constinit OmpWorkers workers;
  return workers;
}

}  // namespace ctxgen::onednn
