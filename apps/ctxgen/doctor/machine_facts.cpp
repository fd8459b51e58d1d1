#include "doctor/machine_facts.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "ctxgen/base/memory_limit.h"
#include "ctxgen/base/usable_cores.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

/// The first line of one of the kernel's files.
std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.processor = processor_name();
  facts.online = static_cast<int>(std::max(0L, sysconf(_SC_NPROCESSORS_ONLN)));
  const AllowedProcessors allowed = allowed_processors();
  facts.processors = allowed.processors;
  facts.cores = allowed.cores;
  facts.quota = processor_quota();
  const int levels[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  for (std::size_t i = 0; i < std::size(levels); ++i)
    facts.cache_bytes[i] = static_cast<std::uint64_t>(std::max(0L, sysconf(levels[i])));
  facts.memory_bytes = static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PHYS_PAGES))) *
                       static_cast<std::uint64_t>(std::max(0L, sysconf(_SC_PAGESIZE)));
  std::ifstream groups("/proc/self/cgroup");
  const std::uint64_t limit = group_limit_bytes(groups, "/sys/fs/cgroup");
  if (limit < facts.memory_bytes) facts.memory_limit = limit;
  rlimit lockable{};
  if (getrlimit(RLIMIT_MEMLOCK, &lockable) == 0)
    facts.lockable_bytes = lockable.rlim_cur == RLIM_INFINITY ? UINT64_MAX : lockable.rlim_cur;
  facts.governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return facts;
}

}  // namespace ctxgen::cli
