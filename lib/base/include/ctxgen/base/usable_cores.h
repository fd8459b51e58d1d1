#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace ctxgen {

/// Of the affinity mask of this process.
struct AllowedProcessors {
  int processors = 1;  // hardware threads
  int cores = 1;       // physical ones, as far as the system says which threads share one
};
[[nodiscard]] AllowedProcessors allowed_processors();

/// The processors whose time this process may use by the quotas of its control groups ("1.5"); nothing
/// where there is no quota.
[[nodiscard]] std::optional<double> processor_quota();

/// The cores of the affinity mask of this process, no more than its control groups give it time for. At
/// least 1; found once.
[[nodiscard]] int available_cores();

/// With how many threads a process computes by default: available_cores(), or OMP_NUM_THREADS where that
/// is set (at most the processors of the mask, and what the control groups give). At least 1; found once.
[[nodiscard]] int usable_cores();

/// processor_quota() of a process in `groups` (the text of /proc/self/cgroup) whose hierarchies are at
/// `mount`. Reads cpu.max (version 2), cpu.cfs_quota_us (version 1), of the group and of those above it.
/// What cannot be read sets no limit.
[[nodiscard]] std::optional<double> quota_of_groups(std::string_view groups,
                                                    const std::filesystem::path& mount);

/// The first number of OMP_NUM_THREADS (OpenMP 6.0, section 4.1.3: a list, one per nesting level);
/// nothing where `text` does not begin with a positive one.
[[nodiscard]] std::optional<int> threads_of_openmp(std::string_view text);

}  // namespace ctxgen
