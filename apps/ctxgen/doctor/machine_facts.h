#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ctxgen::cli {

/// What the system says of itself, as far as it does: 0 and "" are not known.
struct MachineFacts {
  std::string processor;              // "AMD EPYC 9R14"
  int processors = 0, cores = 0;      // hardware threads, and cores, that this process may use
  int online = 0;                     // hardware threads that the system has
  std::optional<double> quota;        // processors whose time the control groups give
  std::uint64_t cache_bytes[3] = {};  // level 1 (data), 2 and 3
  std::uint64_t memory_bytes = 0;     // of the machine
  std::uint64_t memory_limit = 0;     // of the control groups; 0: none
  std::uint64_t lockable_bytes = 0;   // RLIMIT_MEMLOCK; UINT64_MAX: no limit
  std::string governor;               // "performance", "powersave"
};

[[nodiscard]] MachineFacts machine_facts();

}  // namespace ctxgen::cli
