#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/ctxfile/executable.h"

#include "ort_edge.h"
#include "ort_tables.h"

namespace ctxgen::plugin {

/// What runs inside of compiled nodes, for ONNX Runtime's timeline (sessions and single runs, since 1.25): an event of
/// category Kernel for each op of a program.
///
/// ONNX Runtime tells each of its profilers when a node begins and ends, on the thread that runs it; an op belongs
/// to those profilers that have a node open there. So a profiler of one run does not see others.
///
/// Threads  any; profilers may come and go while nodes run.
class OpProfiles {
 public:
  /// Whether a profiler waits for ops that run on this thread. No lock is taken where there is none.
  [[nodiscard]] bool wanted() const noexcept;
  /// `partition`: its name.
  void add(std::span<const OpTiming> ops, const std::string& partition);

  /// For ONNX Runtime, which releases it.
  [[nodiscard]] static OrtEpProfilerImpl* make_profiler(const OrtApis& ort, const OrtLogger* logger,
                                                        std::shared_ptr<OpProfiles> profiles);

 private:
  class Profiler;
  struct Event {
    OpTiming op;
    std::shared_ptr<const std::string> partition;
    std::int32_t thread = 0;
    std::uint64_t parent = 0;  // ONNX Runtime's number of the node's event
  };
  struct Recording {
    std::vector<Event> events;
    std::uint64_t dropped = 0;  // beyond kMostEvents
  };
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Recording> recordings_;  // by the number of a profiler that has begun
};

}  // namespace ctxgen::plugin
