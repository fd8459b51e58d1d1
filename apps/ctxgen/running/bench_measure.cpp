#include "running/bench_measure.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <thread>

#include "ctxgen/base/stopwatch.h"
#include "ctxgen/registry/providers.h"
#include "ctxgen/runtime/trace.h"

#include "flags/arguments.h"
#include "running/random_inputs.h"
#include "term/process_memory.h"

namespace ctxgen::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs behind the per-op table.
constexpr std::size_t kProfiledRuns = 10;

std::vector<InputSize> sizes_of(std::span<const IoInfo> infos, std::span<const NamedTensor> tensors,
                                std::span<const ShapeProfile> profiles) {
  std::vector<NamedValue> values;
  for (const NamedTensor& tensor : tensors) values.push_back({tensor.name, tensor.tensor});
  return input_sizes(infos, values, {}, profiles.empty() ? ShapeProfile{} : profiles.front());
}

/// A context that reads `inputs` in place: what an application has that runs a model again and again.
Result<std::unique_ptr<RunContext>> context_for(const Session& session,
                                                std::span<const NamedTensor> inputs) {
  auto context = CTXGEN_TRY(session.make_context());
  for (std::size_t k = 0; k < session.inputs().size(); ++k)
    for (const NamedTensor& input : inputs)
      if (input.name == session.inputs()[k].name) CTXGEN_CHECK(context->set_input(k, input.tensor));
  return context;
}

Result<double> timed_run(RunContext& context) {
  const auto start = Clock::now();
  CTXGEN_CHECK(context.run());
  return milliseconds_since(start);
}

Result<std::vector<OpTiming>> profile(RunContext& context, Trace& trace) {
  std::vector<OpTiming> mean;
  for (std::size_t i = 0; i < kProfiledRuns; ++i) {
    std::vector<OpTiming> timings;
    CTXGEN_CHECK(context.run(&timings));
    trace.add_run(1, timings);
    if (i == 0) {
      mean = std::move(timings);
      continue;
    }
    for (std::size_t op = 0; op < std::min(mean.size(), timings.size()); ++op)
      mean[op].microseconds += timings[op].microseconds;
  }
  for (OpTiming& op : mean) op.microseconds /= kProfiledRuns;
  return mean;
}

/// A long measurement keeps the times of so many runs and ends.
constexpr std::size_t kMostSamples = 10'000'000;

/// Runs until `milliseconds` have passed and at least `count` times.
Result<std::vector<double>> timed_runs(RunContext& context, std::uint64_t count,
                                       std::uint64_t milliseconds) {
  std::vector<double> samples;
  const auto start = Clock::now();
  while (samples.size() < kMostSamples &&
         (samples.size() < count || milliseconds_since(start) < static_cast<double>(milliseconds)))
    samples.push_back(CTXGEN_TRY(timed_run(context)));
  return samples;
}

/// Requires  samples is not empty.
void summarise(std::vector<double> samples, BenchNumbers& numbers) {
  std::ranges::sort(samples);
  double total = 0;
  for (const double sample : samples) total += sample;
  numbers.runs = samples.size();
  numbers.latency_min_ms = samples.front();
  numbers.latency_p50_ms = percentile(samples, 0.5);
  numbers.latency_p90_ms = percentile(samples, 0.9);
  numbers.latency_p95_ms = percentile(samples, 0.95);
  numbers.latency_p99_ms = percentile(samples, 0.99);
  numbers.latency_max_ms = samples.back();
  numbers.latency_mean_ms = total / static_cast<double>(samples.size());
  numbers.serial_runs_per_second = 1e3 / std::max(numbers.latency_mean_ms, 1e-9);
}

/// Runs one context until all have done `iterations`.
Status run_often(RunContext& context, std::barrier<>& start, std::uint64_t iterations) {
  Status status = context.run();  // its memory is there from now on
  start.arrive_and_wait();
  for (std::uint64_t i = 0; status && i < iterations; ++i) status = context.run();
  return status;
}

/// Runs per second of several contexts, each in a thread of its own with outputs of its own.
Status measure_throughput(const Session& session, std::span<const NamedTensor> inputs,
                          const BenchRequest& request, BenchNumbers& numbers) {
  std::vector<std::unique_ptr<RunContext>> contexts;
  for (std::uint64_t i = 0; i < request.contexts; ++i)
    contexts.push_back(CTXGEN_TRY(context_for(session, inputs)));
  std::barrier start(static_cast<std::ptrdiff_t>(contexts.size()) + 1);
  std::vector<Status> results(contexts.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < contexts.size(); ++i)
    threads.emplace_back(
        [&, i] { results[i] = run_often(*contexts[i], start, request.iterations); });
  start.arrive_and_wait();
  const auto begin = Clock::now();
  threads.clear();  // joins
  const double seconds = milliseconds_since(begin) / 1e3;
  for (Status& result : results) CTXGEN_CHECK(std::move(result));
  numbers.runs_per_second =
      static_cast<double>(contexts.size() * request.iterations) / std::max(seconds, 1e-9);
  const ProcessMemory memory = process_memory();
  numbers.throughput_resident_bytes = memory.resident_bytes;
  numbers.throughput_private_bytes = memory.private_bytes;
  return {};
}

MachinePeaks best_of(const MachinePeaks& a, const MachinePeaks& b) {
  return {.gflops = std::max(a.gflops, b.gflops),
          .int8_gops = std::max(a.int8_gops, b.int8_gops),
          .bf16_gflops = std::max(a.bf16_gflops, b.bf16_gflops),
          .gbytes = std::max(a.gbytes, b.gbytes)};
}

}  // namespace

double percentile(std::span<const double> sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size());
  const auto at = static_cast<std::size_t>(std::max(rank - 0.5, 0.0));
  return sorted[std::min(at, sorted.size() - 1)];
}

Result<MachinePeaks> machine_peaks(int threads, std::uint64_t read_bytes) {
  for (const std::string& name : default_providers()) {
    const auto provider = CTXGEN_TRY(make_provider(name));
    if (const auto peaks = CTXGEN_TRY(provider->peaks(threads, read_bytes))) return *peaks;
  }
  return MachinePeaks{};
}

void write_peaks(JsonWriter& json, const MachinePeaks& peaks) {
  json.key("peaks")
      .begin_object()
      .field("gflops_per_second", peaks.gflops)
      .field("int8_gops_per_second", peaks.int8_gops)
      .field("bf16_gflops_per_second", peaks.bf16_gflops)
      .field("gbytes_per_second", peaks.gbytes)
      .end_object();
}

void write_latencies(JsonWriter& json, const BenchNumbers& numbers) {
  json.key("latency_ms")
      .begin_object()
      .field("min", numbers.latency_min_ms)
      .field("mean", numbers.latency_mean_ms)
      .field("p50", numbers.latency_p50_ms)
      .field("p90", numbers.latency_p90_ms)
      .field("p95", numbers.latency_p95_ms)
      .field("p99", numbers.latency_p99_ms)
      .field("max", numbers.latency_max_ms)
      .end_object();
}

Result<BenchResult> measure(const BenchRequest& request) {
  (void)CTXGEN_TRY(parse_profiles(request.flags.dims, request.flags.shapes));  // before any work
  return measure_open(CTXGEN_TRY(open_model(request.model, request.flags, request.compile_flag)),
                      request);
}

Result<BenchResult> measure_open(const OpenModel& model, const BenchRequest& request) {
  const auto profiles = CTXGEN_TRY(parse_profiles(request.flags.dims, request.flags.shapes));
  const Session& session = *model.session;
  const std::vector<NamedTensor> inputs = CTXGEN_TRY(
      random_inputs(session.inputs(), {}, profiles.empty() ? ShapeProfile{} : profiles.front(), 0));
  BenchResult result;
  result.inputs = sizes_of(session.inputs(), inputs, profiles);
  result.inputs_text = input_sizes_text(session.inputs(), result.inputs, ShownInputs::kAll);
  BenchNumbers& numbers = result.numbers;
  numbers.compile_ms = model.compile_ms;
  numbers.load_ms = model.load_ms;
  const auto context = CTXGEN_TRY(context_for(session, inputs));
  const auto first = timed_run(*context);
  if (!first) return std::unexpected(with_assumed_sizes(first.error(), result.inputs));
  numbers.first_run_ms = *first;
  if (request.warmup_ms > 0) (void)CTXGEN_TRY(timed_runs(*context, 0, request.warmup_ms));
  result.samples_ms = CTXGEN_TRY(timed_runs(*context, request.iterations, request.duration_ms));
  summarise(result.samples_ms, numbers);
  const SessionStatistics& statistics = session.statistics();
  numbers.primitive_creation_ms = statistics.load.primitive_creation_ms;
  numbers.primitives = statistics.load.primitives;
  numbers.nodes = statistics.nodes;
  numbers.partitions = statistics.partitions;
  numbers.plans = session.plan_statistics();
  const ProcessMemory memory = process_memory();
  numbers.resident_bytes = memory.resident_bytes;
  numbers.private_bytes = memory.private_bytes;
  if (request.contexts > 0) CTXGEN_CHECK(measure_throughput(session, inputs, request, numbers));
  if (!request.per_op && request.profile.empty()) return result;
  Trace trace;
  const int threads = request.flags.options.threads;
  const auto measure_peaks = [&] { return machine_peaks(threads, numbers.resident_bytes); };
  if (request.per_op) result.peaks = CTXGEN_TRY(measure_peaks());
  result.ops = CTXGEN_TRY(profile(*context, trace));
  if (!request.profile.empty()) CTXGEN_CHECK(write_trace(trace, request.profile));
  // Before and after: what slows the machine down for a while slows down only one of them.
  if (request.per_op) result.peaks = best_of(result.peaks, CTXGEN_TRY(measure_peaks()));
  return result;
}

}  // namespace ctxgen::cli
