#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/partition/provider_info.h"

#include "flags/model_flags.h"
#include "running/input_sizes.h"
#include "running/open_model.h"

namespace ctxgen::cli {

struct BenchRequest {
  std::string model;
  ModelFlags flags;
  std::string compile_flag;       // as open_model
  std::uint64_t iterations = 50;  // measured runs, at least
  std::uint64_t warmup_ms =
      0;  // runs for so long after the first one, before those that are measured
  std::uint64_t duration_ms = 0;  // goes on measuring for so long
  bool per_op = false;
  std::uint64_t contexts = 0;  // that run at the same time; 0: no throughput is measured
  std::string profile;         // a trace of the profiled runs; "": none
};

/// What is measured of one model. Plain numbers, so that it can cross a pipe.
struct BenchNumbers {
  double compile_ms = 0;  // 0: was compiled already, or runs unchanged
  double load_ms = 0;
  double first_run_ms = 0;
  double latency_min_ms = 0, latency_p50_ms = 0, latency_p99_ms = 0;
  double latency_mean_ms = 0, latency_p90_ms = 0, latency_p95_ms = 0, latency_max_ms = 0;
  std::uint64_t runs = 0;             // measured, one after another
  double serial_runs_per_second = 0;  // of these
  double primitive_creation_ms = 0;
  std::uint64_t resident_bytes = 0, private_bytes = 0;
  double runs_per_second = 0;  // of all contexts together
  std::uint64_t throughput_resident_bytes = 0, throughput_private_bytes = 0;
  std::uint64_t nodes = 0, partitions = 0, primitives = 0;
  PlanStatistics plans;
};

struct BenchResult {
  BenchNumbers numbers;
  std::vector<double> samples_ms;  // of the measured runs, in their order
  std::vector<OpTiming> ops;       // mean of some runs, in order; empty unless asked
  MachinePeaks peaks;              // measured if ops are asked for
  std::vector<InputSize> inputs;
  std::string inputs_text;  // as input_sizes_text()
};

/// The value that `share` of the sorted samples do not pass (nearest rank).
[[nodiscard]] double percentile(std::span<const double> sorted, double share);
/// As the first provider that can measure them finds them; zeros if none can. `read_bytes`: of the memory that is read.
[[nodiscard]] Result<MachinePeaks> machine_peaks(int threads, std::uint64_t read_bytes);

/// The field peaks of an object that is open.
void write_peaks(JsonWriter& json, const MachinePeaks& peaks);
/// The field latency_ms of an object that is open.
void write_latencies(JsonWriter& json, const BenchNumbers& numbers);

/// Loads and runs a model in this process.
[[nodiscard]] Result<BenchResult> measure(const BenchRequest& request);
/// Runs a model that was just opened, by nothing else so far.
[[nodiscard]] Result<BenchResult> measure_open(const OpenModel& model, const BenchRequest& request);

}  // namespace ctxgen::cli
