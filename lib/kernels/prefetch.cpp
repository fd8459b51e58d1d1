#include "prefetch.h"

namespace ctxgen::kernels {

bool prefetch_pays() {
#if defined(__x86_64__)
  static const bool pays = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return pays;
#else
  return false;
#endif
}

}  // namespace ctxgen::kernels
