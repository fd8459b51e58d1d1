#include "prefetch.h"

namespace ctxgen::kernels {

bool has_intel_cores() {
#if defined(__x86_64__)
  static const bool intel = [] {
    __builtin_cpu_init();
    return __builtin_cpu_is("intel") != 0;
  }();
  return intel;
#else
  return false;
#endif
}

bool prefetch_pays() { return has_intel_cores(); }

}  // namespace ctxgen::kernels
