#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen {

/// What runs did when, for chrome://tracing and ui.perfetto.dev (the JSON trace event format): one
/// event per primitive or kernel, inside one event per run.
///
/// Threads  none.
class Trace {
 public:
  /// Adds a run. `lane`: runs of one lane are shown in one row, so they must not overlap in time; a run
  /// context is a lane. `timings`: what the run gave, in order; if empty, there are no events.
  void add_run(std::uint32_t lane, std::span<const OpTiming> timings);
  [[nodiscard]] bool empty() const { return runs_.empty(); }
  /// The whole trace; times in microseconds from the first event on.
  [[nodiscard]] std::string json() const;

 private:
  struct Run {
    std::uint32_t lane = 0;
    std::vector<OpTiming> ops;
  };
  std::vector<Run> runs_;
};

/// Writes it to a file, which appears complete or not at all.
/// Errors  IO_ERROR.
[[nodiscard]] Status write_trace(const Trace& trace, const std::filesystem::path& path);

}  // namespace ctxgen
