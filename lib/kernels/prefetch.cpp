#include "prefetch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ctxgen::kernels {

namespace {

constexpr unsigned kZen5Family = 26;

/// Of a processor of AMD's, else 0 (AMD64 Architecture Programmer's Manual, volume 3, Fn0000_0001_EAX).
unsigned amd_family() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__builtin_cpu_is("amd") == 0 || __get_cpuid(1, &a, &b, &c, &d) == 0) return 0;
  const unsigned base = (a >> 8U) & 0xFU;
  return base == 0xF ? base + ((a >> 20U) & 0xFFU) : base;
#else
  return 0;
#endif
}

}  // namespace

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

bool row_prefetch_pays() { return has_intel_cores(); }

bool panel_prefetch_pays() {
  static const bool pays = has_intel_cores() || amd_family() >= kZen5Family;
  return pays;
}

}  // namespace ctxgen::kernels
