#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ctxgen::test {

/// Whose code asked for memory: the first caller that is neither the allocator nor the C or C++ library.
enum class Asker { kCtxgen, kOneDnn, kOpenMp };

struct Counts {
  std::size_t ctxgen = 0, onednn = 0, openmp = 0;
  std::vector<std::string>
      ctxgen_callers;  // of the first ones, innermost first: addresses for addr2line
};

/// Counts allocations of all threads from now on. Call it twice at least: the first call looks for the
/// libraries that are loaded by then.
void start_counting();
[[nodiscard]] Counts stop_counting();

}  // namespace ctxgen::test
