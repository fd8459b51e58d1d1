#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctxgen/runtime/model_state.h"

#include "running/bench_measure.h"

namespace ctxgen::cli {

/// A prompt, then a token at a time, each continuing the state of the run before.
struct DecodeRequest {
  std::int64_t prompt = 0;  // tokens; 0: nothing is decoded
  std::int64_t steps = 0;
};

struct DecodeResult {
  double compile_ms = 0, load_ms = 0;
  double first_prefill_ms = 0;  // with its plans and memory
  double prefill_ms = 0;        // once more
  double first_step_ms = 0;
  double step_min_ms = 0, step_p50_ms = 0, step_p99_ms = 0,
         step_max_ms = 0;  // from the third step on
  /// Of these, steps that took more than 1.5 times the median.
  std::uint64_t slow_steps = 0;
  /// Read by a step at the end: weights that products read, and the caches.
  std::uint64_t step_bytes = 0;
  std::uint64_t cache_bytes = 0;         // of values at the end
  std::uint64_t cache_memory_bytes = 0;  // that they have
  double read_gbytes = 0;                // per second, a plain read by the same threads
  PlanStatistics plans;                  // of all
  /// From the third step on.
  std::uint64_t plans_made = 0, primitives_made = 0, bytes_allocated = 0;
  std::vector<StatePair> pairs;
  std::uint64_t nodes = 0, partitions = 0;
};

/// "PROMPT,STEPS". Errors  INVALID_ARGUMENT.
[[nodiscard]] Result<DecodeRequest> parse_decode(const std::string& text);

/// In       request.flags.states: the pairs of the state.
/// Errors   INVALID_ARGUMENT: a model that has no tokens, or whose lengths are fixed.
[[nodiscard]] Result<DecodeResult> measure_decode(const BenchRequest& request,
                                                  const DecodeRequest& decode);

}  // namespace ctxgen::cli
