#include "process_memory.h"

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
    if (key == "Private_Clean:" || key == "Private_Dirty:")
      memory.private_bytes += kibibytes * 1024;
  }
  return memory;
}

}  // namespace ctxgen::cli
