#pragma once

#include <cstdint>
#include <string>

namespace ctxgen {

/// What a compile had of a remote cache. Errors are counted apart from misses, so that a cache that is away shows.
struct RemoteCounts {
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t stored = 0;  // results that are there now
  std::uint64_t errors = 0;  // lookups and stores that failed
  std::uint64_t bytes_received = 0, bytes_sent = 0;
  double seconds_waited = 0;
  std::string problem;  // the first error; "" if there was none
};

}  // namespace ctxgen
