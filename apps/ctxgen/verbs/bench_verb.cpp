#include <algorithm>
#include <filesystem>
#include <format>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/json.h"

#include "cli.h"
#include "flags/arguments.h"
#include "flags/options_file.h"
#include "flags/value_checks.h"
#include "io/run_files.h"
#include "running/bench_measure.h"
#include "running/bench_samples.h"
#include "running/decode_measure.h"
#include "running/measuring_process.h"
#include "running/open_model.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen bench model_ctx.onnx\n"
    "  ctxgen bench model_ctx.onnx --compare other_ctx.onnx --iterations 200\n"
    "  ctxgen bench model_ctx.onnx --warmup 200 --duration 3000 --plot latency.svg\n"
    "  ctxgen bench model.onnx --dim batch=8 -v     with a table of operators\n"
    "  ctxgen bench decoder_ctx.onnx --decode 64,512     a prompt of 64 tokens, then 512 steps\n";

struct Flags {
  BenchRequest request;
  std::string decode;
  std::string other;
  std::string csv, plot;
  std::string options_file;
  bool json = false;
  Verbosity verbosity;
};

/// Pages of files, which other processes share or could.
std::uint64_t shared_bytes(const BenchNumbers& numbers) {
  return numbers.resident_bytes - std::min(numbers.private_bytes, numbers.resident_bytes);
}

void write_throughput(JsonWriter& json, const BenchRequest& request, const BenchNumbers& numbers) {
  if (request.contexts == 0) return;
  json.key("throughput")
      .begin_object()
      .field("contexts", request.contexts)
      .field("runs_per_second", numbers.runs_per_second)
      .field("resident_bytes", numbers.throughput_resident_bytes)
      .field("private_bytes", numbers.throughput_private_bytes)
      .end_object();
}

void write_numbers(JsonWriter& json, const std::string& model, const BenchNumbers& numbers) {
  json.field("model", model)
      .field("load_ms", numbers.load_ms)
      .field("first_run_ms", numbers.first_run_ms);
  write_latencies(json, numbers);
  json.field("runs", numbers.runs)
      .field("serial_runs_per_second", numbers.serial_runs_per_second)
      .field("primitive_creation_ms", numbers.primitive_creation_ms)
      .field("resident_bytes", numbers.resident_bytes)
      .field("private_bytes", numbers.private_bytes)
      .field("shared_bytes", shared_bytes(numbers))
      .field("compile_ms", numbers.compile_ms)
      .field("nodes", numbers.nodes)
      .field("partitions", numbers.partitions)
      .field("primitives", numbers.primitives)
      .key("plans")
      .begin_object()
      .field("stored", numbers.plans.stored)
      .field("made", numbers.plans.made)
      .field("primitives_made", numbers.plans.primitives_made)
      .field("kept", numbers.plans.kept)
      .field("dropped", numbers.plans.dropped)
      .field("repacked_weights", numbers.plans.repacked_weights)
      .field("repacked_bytes", numbers.plans.repacked_bytes)
      .end_object();
}

double ratio(double ours, double theirs) { return theirs > 0 ? ours / theirs : 0; }

double gflops_of(const OpTiming& op) { return ratio(op.flops, op.microseconds) / 1e3; }
double gbytes_of(const OpTiming& op) {
  return ratio(static_cast<double>(op.bytes), op.microseconds) / 1e3;
}

void write_ops(JsonWriter& json, const BenchResult& result) {
  write_peaks(json, result.peaks);
  json.key("ops").begin_array();
  for (const OpTiming& op : result.ops)
    json.begin_object()
        .field("name", op.name)
        .field("kind", op.kind)
        .field("implementation", op.implementation)
        .field("us", op.microseconds)
        .field("flops", op.flops)
        .field("bytes", op.bytes)
        .field("int8", op.int8)
        .field("gflops_per_second", gflops_of(op))
        .field("gbytes_per_second", gbytes_of(op))
        .end_object();
  json.end_array();
}

struct Line {
  const char* name;
  double BenchNumbers::* value;
};
constexpr Line kTimes[] = {
    {"load", &BenchNumbers::load_ms},
    {"first run", &BenchNumbers::first_run_ms},
    {"latency min", &BenchNumbers::latency_min_ms},
    {"latency mean", &BenchNumbers::latency_mean_ms},
    {"latency p50", &BenchNumbers::latency_p50_ms},
    {"latency p90", &BenchNumbers::latency_p90_ms},
    {"latency p95", &BenchNumbers::latency_p95_ms},
    {"latency p99", &BenchNumbers::latency_p99_ms},
    {"latency max", &BenchNumbers::latency_max_ms},
    {"primitive creation", &BenchNumbers::primitive_creation_ms},
};

std::string numbers_text(const BenchResult& result) {
  const BenchNumbers& numbers = result.numbers;
  TextTable table({1});
  if (numbers.compile_ms > 0)
    table.row({"compile (in memory)", std::format("{:.2f}", numbers.compile_ms), "ms"});
  for (const Line& line : kTimes)
    table.row({line.name, std::format("{:.3f}", numbers.*line.value), "ms"});
  table.row(
      {"resident memory", std::format("{:.1f}", double(numbers.resident_bytes) / 0x1p20), "MiB"});
  table.row(
      {"private memory", std::format("{:.1f}", double(numbers.private_bytes) / 0x1p20), "MiB"});
  table.row(
      {"shared memory", std::format("{:.1f}", double(shared_bytes(numbers)) / 0x1p20), "MiB"});
  table.row({std::format("{}, one after another", count_text(numbers.runs, "run")),
             std::format("{:.1f}", numbers.serial_runs_per_second), "runs/s"});
  if (numbers.runs_per_second > 0)
    table.row({"throughput", std::format("{:.1f}", numbers.runs_per_second), "runs/s"});
  return table.text() + result.inputs_text +
         std::format("{}, {} among them, {}\n", count_text(numbers.nodes, "node"),
                     count_text(numbers.partitions, "partition"),
                     count_text(numbers.primitives, "primitive"));
}

/// A rate, and what share of the machine's peak it is, where there is one.
std::string rate_text(double rate, double peak) {
  if (rate <= 0) return "-";
  if (peak <= 0) return std::format("{:.1f}", rate);
  return std::format("{:.1f} ({:.0f}%)", rate, 100 * ratio(rate, peak));
}

std::string peaks_text(const MachinePeaks& peaks) {
  std::string text = std::format("{:.1f} GFLOP/s in f32", peaks.gflops);
  if (peaks.int8_gops > 0) text += std::format(", {:.1f} GOP/s in int8", peaks.int8_gops);
  if (peaks.bf16_gflops > 0) text += std::format(", {:.1f} GFLOP/s in bf16", peaks.bf16_gflops);
  return text;
}

std::string ops_text(BenchResult result) {
  double total = 0;
  for (const OpTiming& op : result.ops) total += op.microseconds;
  std::ranges::stable_sort(result.ops, std::ranges::greater{}, &OpTiming::microseconds);
  TextTable table({0, 1, 2, 3});
  table.row({"us", "%", "GFLOP/s", "GB/s", "operator", "implementation", "name"});
  for (const OpTiming& op : result.ops)
    table.row({std::format("{:.1f}", op.microseconds),
               std::format("{:.1f}", 100 * ratio(op.microseconds, total)),
               rate_text(gflops_of(op), op.int8 ? result.peaks.int8_gops : result.peaks.gflops),
               rate_text(gbytes_of(op), result.peaks.gbytes), op.kind, op.implementation, op.name});
  return "\n" + table.text() +
         std::format(
             "(of this machine's peaks, measured in registers: {}; reading memory: {:.1f} GB/s, "
             "which data in caches can exceed)\n",
             peaks_text(result.peaks), result.peaks.gbytes);
}

Result<int> bench_one(const Flags& flags) {
  const BenchResult result = CTXGEN_TRY(measure(flags.request));
  if (!flags.csv.empty())
    CTXGEN_CHECK(write_file(flags.csv, as_bytes(samples_csv(result.samples_ms))));
  if (!flags.plot.empty())
    CTXGEN_CHECK(write_file(
        flags.plot,
        as_bytes(samples_svg(result.samples_ms,
                             std::filesystem::path(flags.request.model).filename().string()))));
  if (!flags.json) {
    std::string text = numbers_text(result);
    if (flags.request.per_op) text += ops_text(result);
    CTXGEN_CHECK(print(text));
    return 0;
  }
  JsonWriter json;
  json.begin_object();
  write_numbers(json, flags.request.model, result.numbers);
  json.field("iterations", flags.request.iterations);
  write_input_sizes(json.key("inputs"), result.inputs);
  write_throughput(json, flags.request, result.numbers);
  if (flags.request.per_op) write_ops(json, result);
  json.end_object();
  CTXGEN_CHECK(print(json.finish()));
  return 0;
}

std::string comparison_json(const Flags& flags, const BenchNumbers& ours,
                            const BenchNumbers& theirs) {
  JsonWriter json;
  json.begin_object();
  write_numbers(json, flags.request.model, ours);
  json.field("iterations", flags.request.iterations);
  write_throughput(json, flags.request, ours);
  json.key("compare").begin_object();
  write_numbers(json, flags.other, theirs);
  write_throughput(json, flags.request, theirs);
  json.end_object()
      .key("ratio")
      .begin_object()
      .field("load_ms", ratio(ours.load_ms, theirs.load_ms))
      .field("first_run_ms", ratio(ours.first_run_ms, theirs.first_run_ms))
      .field("latency_p50_ms", ratio(ours.latency_p50_ms, theirs.latency_p50_ms))
      .field("private_bytes", ratio(double(ours.private_bytes), double(theirs.private_bytes)))
      .field("runs_per_second", ratio(ours.runs_per_second, theirs.runs_per_second))
      .end_object()
      .end_object();
  return json.finish();
}

std::string comparison_text(const Flags& flags, const BenchNumbers& ours,
                            const BenchNumbers& theirs) {
  TextTable table({1, 2, 3});
  table.row({"", "ratio", flags.request.model, flags.other});
  const auto row = [&](const char* name, double a, double b, const char* unit) {
    table.row({name, std::format("{:.3f}", ratio(a, b)), std::format("{:.3f}", a),
               std::format("{:.3f}", b), unit});
  };
  for (const Line& line : kTimes) row(line.name, ours.*line.value, theirs.*line.value, "ms");
  row("resident memory", double(ours.resident_bytes) / 0x1p20,
      double(theirs.resident_bytes) / 0x1p20, "MiB");
  row("private memory", double(ours.private_bytes) / 0x1p20, double(theirs.private_bytes) / 0x1p20,
      "MiB");
  row("shared memory", double(shared_bytes(ours)) / 0x1p20, double(shared_bytes(theirs)) / 0x1p20,
      "MiB");
  if (flags.request.contexts > 0)
    row("throughput", ours.runs_per_second, theirs.runs_per_second, "runs/s");
  return table.text();
}

Result<int> bench_two(const Flags& flags) {
  if (flags.request.per_op)
    return fail(ErrorCode::kInvalidArgument,
                "-v cannot be combined with --compare: the table of operators is for one model");
  if (!flags.request.profile.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--profile cannot be combined with --compare: a profile is for one model");
  if (!flags.csv.empty() || !flags.plot.empty())
    return fail(ErrorCode::kInvalidArgument,
                "{} cannot be combined with --compare: it shows the runs of one model",
                flags.csv.empty() ? "--plot" : "--csv");
  // Flags about compiling are for the plain one of the two, --verify-blobs for the compiled one.
  const std::string data = flags.request.flags.options.external_data_folder.string();
  const bool first_compiled = CTXGEN_TRY(is_context_model(flags.request.model, data));
  const bool second_compiled = CTXGEN_TRY(is_context_model(flags.other, data));
  const bool none_compiled = !first_compiled && !second_compiled;
  if (none_compiled && flags.request.flags.verify_blobs)
    return fail(ErrorCode::kInvalidArgument,
                "--verify-blobs: both models are plain ones, there is no "
                "compiled part to verify");
  if (first_compiled && second_compiled && !flags.request.compile_flag.empty())
    return fail(ErrorCode::kInvalidArgument, "{}: both models are already compiled",
                flags.request.compile_flag);
  BenchRequest one = flags.request;
  one.compile_flag.clear();
  BenchRequest other = one;
  other.model = flags.other;
  if (!first_compiled) one.flags.verify_blobs.reset();
  if (!second_compiled) other.flags.verify_blobs.reset();
  const BenchResult ours = CTXGEN_TRY(measure_apart(one));
  const BenchResult theirs = CTXGEN_TRY(measure_apart(other));
  std::string sizes = ours.inputs_text;
  if (theirs.inputs_text != sizes) sizes += theirs.inputs_text;
  CTXGEN_CHECK(print(flags.json ? comparison_json(flags, ours.numbers, theirs.numbers)
                                : comparison_text(flags, ours.numbers, theirs.numbers) + sizes));
  return 0;
}

void write_pairs(JsonWriter& json, std::span<const StatePair> pairs) {
  json.key("state").begin_array();
  for (const StatePair& pair : pairs)
    json.begin_object()
        .field("input", pair.input)
        .field("output", pair.output)
        .field("grows", pair.grows)
        .field("in_place", pair.in_place)
        .end_object();
  json.end_array();
}

double tokens_per_second(const DecodeResult& result) { return ratio(1e3, result.step_p50_ms); }
double step_gbytes(const DecodeResult& result) {
  return ratio(static_cast<double>(result.step_bytes), result.step_p50_ms) / 1e6;
}

std::string decode_json(const Flags& flags, const DecodeRequest& decode,
                        const DecodeResult& result) {
  JsonWriter json;
  json.begin_object()
      .field("model", flags.request.model)
      .field("compile_ms", result.compile_ms)
      .field("load_ms", result.load_ms)
      .field("nodes", result.nodes)
      .field("partitions", result.partitions)
      .key("decode")
      .begin_object()
      .field("prompt", static_cast<std::uint64_t>(decode.prompt))
      .field("steps", static_cast<std::uint64_t>(decode.steps))
      .field("first_prefill_ms", result.first_prefill_ms)
      .field("prefill_ms", result.prefill_ms)
      .field("first_step_ms", result.first_step_ms)
      .key("step_ms")
      .begin_object()
      .field("min", result.step_min_ms)
      .field("p50", result.step_p50_ms)
      .field("p99", result.step_p99_ms)
      .field("max", result.step_max_ms)
      .end_object()
      .field("slow_steps", result.slow_steps)
      .field("tokens_per_second", tokens_per_second(result))
      .field("step_bytes", result.step_bytes)
      .field("gbytes_per_second", step_gbytes(result))
      .field("read_gbytes_per_second", result.read_gbytes)
      .field("cache_bytes", result.cache_bytes)
      .field("cache_memory_bytes", result.cache_memory_bytes)
      .key("from_third_step")
      .begin_object()
      .field("plans_made", result.plans_made)
      .field("primitives_made", result.primitives_made)
      .field("bytes_allocated", result.bytes_allocated)
      .end_object();
  write_pairs(json, result.pairs);
  json.end_object().end_object();
  return json.finish();
}

std::string decode_text(const DecodeRequest& decode, const DecodeResult& result) {
  TextTable table({1});
  const auto row = [&](const std::string& name, double value, const char* unit) {
    table.row({name, std::format("{:.3f}", value), unit});
  };
  row("load", result.load_ms, "ms");
  row("first prefill", result.first_prefill_ms, "ms");
  row(std::format("prefill of {}", decode.prompt), result.prefill_ms, "ms");
  row("first step", result.first_step_ms, "ms");
  row("step p50", result.step_p50_ms, "ms");
  row("step p99", result.step_p99_ms, "ms");
  row("step max", result.step_max_ms, "ms");
  table.row({"steps above 1.5 p50", std::to_string(result.slow_steps), ""});
  row("tokens per second", tokens_per_second(result), "");
  row("read by a step", double(result.step_bytes) / 0x1p20, "MiB");
  table.row({"reading", rate_text(step_gbytes(result), result.read_gbytes), "GB/s"});
  row("caches", double(result.cache_bytes) / 0x1p20, "MiB");
  std::string text = table.text();
  for (const StatePair& pair : result.pairs)
    text += std::format("state: {} = {}{}\n", pair.input, pair.output,
                        pair.in_place ? ", in place" : "");
  return text + std::format("from the third step on: {}, {}, {} bytes allocated\n",
                            count_text(result.plans_made, "plan"),
                            count_text(result.primitives_made, "primitive"),
                            result.bytes_allocated);
}

Result<int> bench_decoder(const Flags& flags) {
  const DecodeRequest decode = CTXGEN_TRY(parse_decode(flags.decode));
  const DecodeResult result = CTXGEN_TRY(measure_decode(flags.request, decode));
  CTXGEN_CHECK(
      print(flags.json ? decode_json(flags, decode, result) : decode_text(decode, result)));
  return 0;
}

/// Options that say nothing about steps, or nothing without them.
Status check_decode(const Flags& flags) {
  const bool decodes = !flags.decode.empty();
  if (!decodes && !flags.request.flags.states.empty())
    return fail(ErrorCode::kInvalidArgument, "--state has no effect without --decode");
  const char* other = !flags.other.empty()             ? "--compare"
                      : flags.request.contexts > 0     ? "--contexts"
                      : !flags.request.profile.empty() ? "--profile"
                      : flags.request.per_op           ? "-v"
                      : flags.request.warmup_ms > 0    ? "--warmup"
                      : flags.request.duration_ms > 0  ? "--duration"
                      : !flags.csv.empty()             ? "--csv"
                      : !flags.plot.empty()            ? "--plot"
                                                       : nullptr;
  if (decodes && other != nullptr)
    return fail(ErrorCode::kInvalidArgument, "--decode cannot be combined with {}", other);
  return {};
}

Result<int> run(Flags& flags) {
  apply(flags.verbosity);
  CTXGEN_CHECK(check_decode(flags));
  const auto profiles =
      CTXGEN_TRY(parse_profiles(flags.request.flags.dims, flags.request.flags.shapes));
  if (profiles.size() > 1)
    return fail(ErrorCode::kInvalidArgument,
                "--dim and --shape: expected one size each, got {} combinations", profiles.size());
  if (!flags.other.empty()) return bench_two(flags);
  CTXGEN_CHECK(check_run_files(
      {.model = flags.request.model,
       .external_data_folder = flags.request.flags.options.external_data_folder.string(),
       .options_file = flags.options_file,
       .inputs = {},
       .test_data = {},
       .profile = flags.request.profile,
       .report = {},
       .output_file = {},
       .csv = flags.csv,
       .plot = flags.plot,
       .output_folder = {}}));
  if (flags.decode.empty()) return bench_one(flags);
  if (flags.request.flags.states.empty()) flags.request.flags.states = {"auto"};
  return bench_decoder(flags);
}

}  // namespace

void add_bench(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = cli.app.add_subcommand(
      "bench", "measure load, first run, latency and memory; -v adds a table of operators");
  verb->add_option("model", flags->request.model, "an ONNX model or a context model")
      ->type_name("MODEL")
      ->required();
  verb->add_option("--compare", flags->other,
                   "also measure this model, each in a separate process, and print ratios")
      ->type_name("OTHER");
  verb->add_option("--iterations", flags->request.iterations, "number of measured runs")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole_number(1, 1'000'000));
  verb->add_option("--warmup", flags->request.warmup_ms,
                   "run for at least so long after the first run, before the measured ones")
      ->type_name("MS")
      ->transform(whole_number(1, 3'600'000));
  verb->add_option("--duration", flags->request.duration_ms,
                   "go on measuring for at least so long, and --iterations runs")
      ->type_name("MS")
      ->transform(whole_number(1, 3'600'000));
  verb->add_option("--csv", flags->csv, "write the latency of each measured run")
      ->type_name("FILE.csv");
  verb->add_option("--plot", flags->plot, "draw the latency of each measured run over time")
      ->type_name("FILE.svg");
  verb->add_option("--contexts", flags->request.contexts,
                   "also measure the throughput of N run contexts, each in its own thread")
      ->type_name("N")
      ->transform(whole_number(1, 1024));
  verb->add_option(
          "--decode", flags->decode,
          "instead, measure a decoder: a prompt of so many tokens, then steps of one, which "
          "continue the state of the run before")
      ->type_name("PROMPT,STEPS");
  verb->add_option("--state", flags->request.flags.states,
                   "with --decode: an input and the output that the next run takes as it "
                   "(past=present), or auto for all that have usual names; default auto")
      ->type_name("PAIR");
  verb->add_option("--profile", flags->request.profile,
                   "write the time of each primitive and kernel, for chrome://tracing and Perfetto")
      ->type_name("FILE.json");
  add_model_flags(*verb, flags->request.flags);
  add_run_flags(*verb, flags->request.flags);
  verb->add_flag("--json", flags->json, "print JSON");
  add_options_file(*verb, flags->options_file);
  add_verbosity(*verb, flags->verbosity);
  verb->footer(kExamples);
  verb->callback([&cli, flags, verb] {
    flags->request.compile_flag = compile_only_flag(*verb);
    flags->request.per_op = flags->verbosity.verbose > 0;
    cli.action = [flags] { return run(*flags); };
  });
}

}  // namespace ctxgen::cli
