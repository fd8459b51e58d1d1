#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ctxgen {

/// What a compile made, and what it took from the cache instead.
struct BuildCounts {
  std::uint64_t programs_compiled = 0, programs_cached = 0;
  std::uint64_t bytes_packed = 0, bytes_cached = 0;  // of weights
  bool outputs_cached = false;  // the files of the whole compile came from the cache
};

/// Weights that are equal before packing and stored in several layouts, because programs run best
/// with different ones: those of the same programs together.
struct SplitWeights {
  std::vector<std::string> programs;  // partition names
  std::uint64_t weights = 0;
  std::uint64_t bytes = 0;        // stored, in all layouts
  std::uint64_t extra_bytes = 0;  // of that, what one layout each would not take
};

}  // namespace ctxgen
