#include "doctor/machine_facts.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <format>
#include <fstream>
#include <set>

#include "ctxgen/base/memory_limit.h"

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

void count_processors(MachineFacts& facts) {
  facts.online = static_cast<int>(std::max(0L, sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    ++facts.processors;
    const std::string siblings =
        first_line(std::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  facts.cores = static_cast<int>(cores.size());
}

/// "200000 100000" of cpu.max is the time of 2 processors; "max ..." sets none.
std::optional<double> quota_of(const fs::path& group) {
  std::ifstream file(group / "cpu.max");
  double time = 0, period = 0;
  if (!(file >> time >> period) || time <= 0 || period <= 0) return std::nullopt;
  return time / period;
}

/// The least of this process's group and those around it (cgroups(7), version 2).
std::optional<double> least_quota() {
  std::ifstream file("/proc/self/cgroup");
  std::optional<double> least;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::/")) continue;
    fs::path folder = "/sys/fs/cgroup";
    const auto take = [&] {
      if (const auto quota = quota_of(folder)) least = std::min(least.value_or(*quota), *quota);
    };
    take();
    for (const fs::path& part : fs::path(line.substr(3)).relative_path()) {
      if (part == "..") break;
      folder /= part;
      take();
    }
  }
  return least;
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.processor = processor_name();
  count_processors(facts);
  facts.quota = least_quota();
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
