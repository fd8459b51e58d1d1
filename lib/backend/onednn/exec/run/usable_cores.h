#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

namespace ctxgen::onednn {

/// With how many threads a process computes by default: the physical cores of its
/// affinity mask, or OMP_NUM_THREADS where that is set (at most the processors of the mask), and no
/// more than its control groups give it time for. At least 1; found once.
[[nodiscard]] int usable_cores();

/// The processors whose time a process may use by the quotas of its control groups, rounded up;
/// nothing where there is no quota. `groups`: the text of /proc/self/cgroup. `mount`: where the
/// hierarchies are. Reads cpu.max (version 2), cpu.cfs_quota_us (version 1), of the group and of those
/// above it. What cannot be read sets no limit.
[[nodiscard]] std::optional<int> cores_of_quota(std::string_view groups,
                                                const std::filesystem::path& mount);

/// The first number of OMP_NUM_THREADS (OpenMP 6.0, section 4.1.3: a list, one per nesting level);
/// nothing where `text` does not begin with a positive one.
[[nodiscard]] std::optional<int> threads_of_openmp(std::string_view text);

}  // namespace ctxgen::onednn
