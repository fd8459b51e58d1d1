#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>

namespace ctxgen {

/// What one kind of use may take by default: three quarters of the memory that
/// the process may use, the machine's or its control group's.
[[nodiscard]] std::uint64_t default_memory_limit_bytes();

/// The least `memory.max` of a process's control group and those around it: `groups` is its
/// /proc/PID/cgroup (cgroups(7), version 2), `root` where the hierarchy is mounted. UINT64_MAX
/// without a limit.
[[nodiscard]] std::uint64_t group_limit_bytes(std::istream& groups,
                                              const std::filesystem::path& root);

}  // namespace ctxgen
