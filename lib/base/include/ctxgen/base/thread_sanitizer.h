#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// Threads of libraries that are not instrumented: the thread sanitizer has to be told where they synchronise. Does
// nothing in other builds.
namespace ctxgen {

/// What this thread did before it happens before what others do after acquire_at() of the same address.
inline void release_at([[maybe_unused]] void* point) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(point);
#endif
}

inline void acquire_at([[maybe_unused]] void* point) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(point);
#endif
}

}  // namespace ctxgen
