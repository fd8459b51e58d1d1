#pragma once

#include "ctxgen/base/workers.h"

namespace ctxgen::onednn {

/// Sets the OpenMP threads of the calling thread while it lives: those that oneDNN's primitives use.
class OmpThreads {
 public:
  explicit OmpThreads(int threads);
  OmpThreads(const OmpThreads&) = delete;
  OmpThreads& operator=(const OmpThreads&) = delete;
  ~OmpThreads();

 private:
  int before_;
};

/// Ends the threads that wait for parallel regions of the calling thread; the next region starts new ones.
void release_omp_team();

/// The OpenMP threads of the calling thread, in equal parts: a team that is running costs 5 us a
/// call, and oneDNN's primitives use the same.
[[nodiscard]] Workers& omp_workers();

}  // namespace ctxgen::onednn
