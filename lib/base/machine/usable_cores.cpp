#include "ctxgen/base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace ctxgen {
namespace {

constexpr int kMostOpenMpThreads = 1 << 16;

/// The beginning of a small file of the kernel's; empty where it cannot be read.
std::string read_start(const std::filesystem::path& path) {
  constexpr std::streamsize kMost = 64 * 1024;
  std::ifstream file(path);
  std::string text(static_cast<std::size_t>(kMost), '\0');
  file.read(text.data(), kMost);
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
}

/// The number that `text` begins with after spaces, which it is shortened by.
std::optional<std::int64_t> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool is_space(std::string_view text) { return text.find_first_not_of(" \t\n") == text.npos; }

std::optional<double> ratio_of(std::string_view quota, std::string_view period) {
  const auto time = take_number(quota), of = take_number(period);
  if (!time || !of || *time <= 0 || *of <= 0) return std::nullopt;  // "max", -1: no limit
  if (!is_space(quota) || !is_space(period)) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*of);
}

std::optional<double> quota_of(const std::filesystem::path& folder) {
  if (const std::string line = read_start(folder / "cpu.max"); !line.empty()) {
    const std::size_t space = std::min(line.find(' '), line.size());
    return ratio_of(std::string_view(line).substr(0, space), std::string_view(line).substr(space));
  }
  return ratio_of(read_start(folder / "cpu.cfs_quota_us"),
                  read_start(folder / "cpu.cfs_period_us"));
}

/// The least quota of a group and of those above it.
std::optional<double> least_quota(const std::filesystem::path& hierarchy, std::string_view group) {
  std::optional<double> least;
  const auto take = [&](const std::filesystem::path& folder) {
    if (const auto quota = quota_of(folder)) least = std::min(least.value_or(*quota), *quota);
  };
  std::filesystem::path folder = hierarchy;
  take(folder);
  // In a container the path may be the host's, which is not below the mount: the loop finds nothing.
  for (const auto& part : std::filesystem::path(group).relative_path()) {
    if (part == "..") break;
    take(folder /= part);
  }
  return least;
}

std::string topology(int cpu, std::string_view name) {
  std::string text = read_start("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" +
                                std::string(name));
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

int within_quota(int threads) {
  const double quota = std::ceil(processor_quota().value_or(threads));
  return std::max(1, static_cast<int>(std::min<double>(threads, quota)));
}

}  // namespace

AllowedProcessors allowed_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {};
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    const std::string core = topology(cpu, "core_id");
    // Without topology each processor counts as a core.
    cores.insert(core.empty() ? "cpu" + std::to_string(cpu)
                              : topology(cpu, "physical_package_id") + ":" + core);
  }
  return {std::max(1, CPU_COUNT(&allowed)), std::max(1, static_cast<int>(cores.size()))};
}

std::optional<int> threads_of_openmp(std::string_view text) {
  const auto number = take_number(text);
  if (!number || *number < 1) return std::nullopt;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  if (!text.empty() && text.front() != ',') return std::nullopt;
  return static_cast<int>(std::min<std::int64_t>(*number, kMostOpenMpThreads));
}

std::optional<double> quota_of_groups(std::string_view groups, const std::filesystem::path& mount) {
  std::optional<double> least;
  while (!groups.empty()) {
    const std::size_t end = std::min(groups.find('\n'), groups.size());
    const std::string_view line = groups.substr(0, end);  // "0::/path", "4:cpu,cpuacct:/path"
    groups.remove_prefix(std::min(end + 1, groups.size()));
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? line.npos : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string_view group = line.substr(second + 1);
    const bool has_cpu = ("," + std::string(controllers) + ",").contains(",cpu,");
    if (!controllers.empty() && !has_cpu) continue;
    const auto quota = least_quota(mount / controllers, group);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

std::optional<double> processor_quota() {
  return quota_of_groups(read_start("/proc/self/cgroup"), "/sys/fs/cgroup");
}

int available_cores() {
  static const int count = within_quota(allowed_processors().cores);
  return count;
}

int usable_cores() {
  static const int count = [] {
    const char* const text = std::getenv("OMP_NUM_THREADS");
    const auto wanted = text == nullptr ? std::nullopt : threads_of_openmp(text);
    if (!wanted) return available_cores();
    return within_quota(std::min(*wanted, allowed_processors().processors));
  }();
  return count;
}

}  // namespace ctxgen
