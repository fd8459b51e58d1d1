#include "ctxgen/base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace ctxgen {
namespace {

std::uint64_t physical_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return UINT64_MAX / 2;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

std::uint64_t own_group_bytes() {
  std::ifstream groups("/proc/self/cgroup");
  return group_limit_bytes(groups, "/sys/fs/cgroup");
}

}  // namespace

std::uint64_t group_limit_bytes(std::istream& groups, const std::filesystem::path& root) {
  constexpr std::string_view kUnified = "0::/";
  std::filesystem::path folder = root;
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with(kUnified)) folder /= line.substr(kUnified.size());
  std::uint64_t least = UINT64_MAX;
  // Inside of a container the path may be the host's: then only the root is there.
  for (;; folder = folder.parent_path()) {
    std::uint64_t bytes = 0;
    if (std::ifstream file(folder / "memory.max"); file >> bytes && bytes > 0)
      least = std::min(least, bytes);
    if (folder.native().size() <= root.native().size()) return least;
  }
}

std::uint64_t default_memory_limit_bytes() {
  static const std::uint64_t bytes = std::min(physical_bytes(), own_group_bytes()) / 4 * 3;
  return bytes;
}

}  // namespace ctxgen
