#include "ctxgen/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace ctxgen {
namespace {

std::uint64_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return UINT64_MAX / 2;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

/// The limit of the control group, as seen from inside of a container; "max" where there is none.
std::uint64_t group_bytes() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::uint64_t bytes = 0;
  return file >> bytes && bytes > 0 ? bytes : UINT64_MAX;
}

}  // namespace

std::uint64_t default_memory_limit_bytes() {
  static const std::uint64_t bytes = std::min(physical_bytes(), group_bytes()) / 4 * 3;
  return bytes;
}

}  // namespace ctxgen
