#include "term/process_memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace ctxgen::cli {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string key;
    std::uint64_t kibibytes = 0;
    if (!(fields >> key >> kibibytes)) continue;
    if (key == "Rss:") memory.resident_bytes = kibibytes * 1024;
    // Clean pages of a mapped file are the page cache's, also while only one process maps them.
    if (key == "Anonymous:") memory.private_bytes = kibibytes * 1024;
  }
  return memory;
}

}  // namespace ctxgen::cli
