#pragma once

#include <cstdint>

namespace ctxgen::cli {

/// Memory of this process now, in bytes; 0 where the system does not tell.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;
  std::uint64_t private_bytes = 0;  // not shared with other processes or the page cache's files
};

[[nodiscard]] ProcessMemory process_memory();

}  // namespace ctxgen::cli
