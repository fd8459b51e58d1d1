#include <algorithm>
#include <cmath>
#include <format>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/runtime/elements.h"
#include "ctxgen/runtime/numerics.h"
#include "ctxgen/runtime/trace.h"

#include "cli.h"
#include "flags/arguments.h"
#include "flags/model_flags.h"
#include "flags/options_file.h"
#include "flags/value_checks.h"
#include "io/run_files.h"
#include "io/tensor_files.h"
#include "io/test_data.h"
#include "running/input_sizes.h"
#include "running/open_model.h"
#include "running/random_inputs.h"
#include "running/run_sequence.h"
#include "running/value_dump.h"
#include "running/value_summary.h"
#include "running/verify_runs.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen run model_ctx.onnx                        random inputs, seeded\n"
    "  ctxgen run model.onnx --input x=x.npy --output-dir out/\n"
    "  ctxgen run model.onnx --test-data test_data_set_0\n"
    "  ctxgen run model.onnx --provider cpu --test-data .\n"
    "  ctxgen run decoder.onnx --state auto --input input_ids=ids.npy\n"
    "  ctxgen run model_ctx.onnx --dump values/         what every node gave\n";

struct Flags {
  std::string model;
  ModelFlags options;
  std::vector<std::string> inputs;
  std::string test_data;
  std::string output_folder, output_file, dump_folder;
  std::string profile;
  std::uint64_t seed = 0;
  ToleranceOverrides tolerance;
  std::string options_file;
  bool json = false;
  Verbosity verbosity;
};

/// Runs, and adds what was measured to `trace` if a profile is wanted.
Result<std::vector<RuntimeValue>> run_model(const Flags& flags, RunSequence& runs,
                                            std::span<const NamedValue> inputs, Trace& trace,
                                            const ValueObserver* observer = nullptr) {
  const bool test_data = !flags.test_data.empty();
  if (flags.profile.empty()) return runs.run(inputs, test_data, nullptr, observer);
  std::vector<OpTiming> timings;
  auto outputs = CTXGEN_TRY(runs.run(inputs, test_data, &timings, observer));
  trace.add_run(1, timings);
  return outputs;
}

Status write_profile(const Flags& flags, const Trace& trace) {
  return flags.profile.empty() ? Status() : write_trace(trace, flags.profile);
}

// ---- one run with given or random inputs ---------------------------------------------------------

std::string outputs_json(const Flags& flags, const OpenModel& model,
                         std::span<const InputSize> inputs, std::span<const RuntimeValue> outputs,
                         std::span<const std::string> files) {
  JsonWriter json;
  json.begin_object().field("model", flags.model);
  write_input_sizes(json.key("inputs"), inputs);
  json.key("outputs").begin_array();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    json.begin_object().field("name", model.session->outputs()[i].name);
    write_value_fields(json, outputs[i]);
    if (i < files.size()) json.field("file", files[i]);
    json.end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

std::string outputs_text(const OpenModel& model, std::span<const RuntimeValue> outputs,
                         std::span<const std::string> files) {
  TextTable table;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto summary = summarise(outputs[i]);
    table.row({model.session->outputs()[i].name, describe(outputs[i]),
               summary ? std::format("min {:.6g}  max {:.6g}  mean {:.6g}", summary->least,
                                     summary->greatest, summary->mean)
                       : "",
               i < files.size() ? files[i] : ""});
  }
  return table.text();
}

Result<int> run_once(const Flags& flags, const OpenModel& model, const ShapeProfile& shapes) {
  const auto infos = model.session->inputs();
  std::vector<NamedValue> inputs = CTXGEN_TRY(read_inputs(flags.inputs, infos, shapes));
  CTXGEN_CHECK(check_sizes_used(
      infos, {inputs, raw_inputs(flags.inputs, infos), model.compiled.has_value()}, shapes));
  std::vector<std::string> given;
  RunSequence runs = CTXGEN_TRY(RunSequence::start(*model.session));
  for (const NamedValue& input : inputs) given.push_back(input.name);
  for (std::string& name : runs.kept_inputs()) given.push_back(std::move(name));
  for (NamedTensor& random : CTXGEN_TRY(random_inputs(infos, given, shapes, flags.seed)))
    inputs.push_back({std::move(random.name), std::move(random.tensor)});
  const std::vector<InputSize> sizes = input_sizes(infos, inputs, given, shapes);
  Trace trace;
  std::optional<ValueDump> dump;
  if (!flags.dump_folder.empty()) dump = CTXGEN_TRY(ValueDump::start(flags.dump_folder));
  const ValueObserver observer = [&](const ObservedValue& seen) { dump->add(seen); };
  const auto run = run_model(flags, runs, inputs, trace, dump ? &observer : nullptr);
  if (!run) return std::unexpected(with_assumed_sizes(run.error(), sizes));
  const std::vector<RuntimeValue>& outputs = *run;
  std::size_t dumped = 0;
  if (dump) dumped = CTXGEN_TRY(dump->finish());
  CTXGEN_CHECK(write_profile(flags, trace));
  std::vector<std::string> files;
  if (!flags.output_folder.empty())
    files = CTXGEN_TRY(write_outputs(flags.output_folder, model.session->outputs(), outputs));
  if (!flags.output_file.empty())
    CTXGEN_CHECK(write_npz_file(flags.output_file, model.session->outputs(), outputs));
  if (flags.json) {
    CTXGEN_CHECK(print(outputs_json(flags, model, sizes, outputs, files)));
  } else if (!flags.verbosity.quiet) {
    CTXGEN_CHECK(print(input_sizes_text(infos, sizes, ShownInputs::kOpen) +
                       outputs_text(model, outputs, files)));
    if (dump)
      CTXGEN_CHECK(
          print(std::format("{} in {}\n", count_text(dumped, "value"), flags.dump_folder)));
  }
  return 0;
}

// ---- comparison with test data -------------------------------------------------------------------

struct OutputResult {
  std::string set, name;
  Comparison comparison;
};

std::string comparison_json(const Flags& flags, std::span<const OutputResult> results, bool match) {
  JsonWriter json;
  json.begin_object().field("model", flags.model).field("match", match);
  write_overrides(json, flags.tolerance);
  json.key("outputs").begin_array();
  for (const OutputResult& result : results) {
    json.begin_object()
        .field("data_set", result.set)
        .field("name", result.name)
        .field("match", result.comparison.match)
        .field("max_abs", result.comparison.max_abs)
        .field("max_rel", result.comparison.max_rel)
        .field("mismatches", result.comparison.mismatches);
    write_tolerance(json, result.comparison);
    json.field("text", result.comparison.text).end_object();
  }
  json.end_array().end_object();
  return json.finish();
}

std::string comparison_text(std::span<const OutputResult> results) {
  TextTable table;
  for (const OutputResult& result : results)
    table.row({result.set, result.name, result.comparison.match ? "match" : "MISMATCH",
               std::format("max abs {:.3g}", result.comparison.max_abs),
               std::format("max rel {:.3g}", result.comparison.max_rel),
               tolerance_text(result.comparison), result.comparison.text});
  return table.text();
}

Result<int> run_test_data(const Flags& flags, const OpenModel& model) {
  std::vector<OutputResult> results;
  const NumericPaths paths = model.session->numeric_paths();
  RunSequence runs = CTXGEN_TRY(RunSequence::start(*model.session));
  Trace trace;
  for (const auto& folder : CTXGEN_TRY(find_data_sets(flags.test_data))) {
    const TestDataSet set =
        CTXGEN_TRY(read_data_set(folder, model.session->inputs(), model.session->outputs()));
    const auto outputs = CTXGEN_TRY(run_model(flags, runs, set.inputs, trace));
    for (std::size_t i = 0; i < set.outputs.size(); ++i)
      results.push_back({set.name, model.session->outputs()[i].name,
                         compare(outputs[i], set.outputs[i], paths.outputs[i], flags.tolerance)});
  }
  CTXGEN_CHECK(write_profile(flags, trace));
  const auto bad = std::ranges::count_if(
      results, [](const OutputResult& result) { return !result.comparison.match; });
  if (flags.json || !flags.verbosity.quiet)
    CTXGEN_CHECK(
        print(flags.json ? comparison_json(flags, results, bad == 0) : comparison_text(results)));
  if (bad > 0)
    return fail(ErrorCode::kNotSatisfied, "{} of {} outputs differ from the test data", bad,
                results.size());
  return 0;
}

/// Options that the chosen way of running would ignore.
Status check_given(const CLI::App& verb) {
  if (verb.count("--signature") > 0 && verb.count("--require-signed") == 0)
    return fail(ErrorCode::kInvalidArgument, "--signature needs --require-signed");
  const bool test_data = verb.count("--test-data") > 0;
  for (const char* name : {"--input", "--output-dir", "--output-file", "--seed", "--dump"})
    if (test_data && verb.count(name) > 0)
      return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with --test-data", name);
  if (verb.count("--dump") > 0 && verb.count("--state") > 0)
    return fail(ErrorCode::kInvalidArgument, "--dump cannot be combined with --state");
  for (const char* name : {"--rtol", "--atol"})
    if (!test_data && verb.count(name) > 0)
      return fail(ErrorCode::kInvalidArgument, "{} needs --test-data", name);
  return {};
}

Result<int> run(const Flags& flags, const std::string& compile_flag) {
  apply(flags.verbosity);
  const auto profiles = CTXGEN_TRY(parse_profiles(flags.options.dims, flags.options.shapes));
  if (profiles.size() > 1)
    return fail(
        ErrorCode::kInvalidArgument,
        "--dim and --shape: expected one size each, got {} combinations (run each size in a separate call)",
        profiles.size());
  CTXGEN_CHECK(
      check_run_files({.model = flags.model,
                       .external_data_folder = flags.options.options.external_data_folder.string(),
                       .options_file = flags.options_file,
                       .inputs = flags.inputs,
                       .test_data = flags.test_data,
                       .profile = flags.profile,
                       .report = {},
                       .output_file = flags.output_file,
                       .output_folder = flags.output_folder,
                       .dump_folder = flags.dump_folder}));
  if (!flags.dump_folder.empty()) CTXGEN_CHECK(ValueDump::check(flags.dump_folder));
  const OpenModel model =
      CTXGEN_TRY(open_model(flags.model, flags.options, compile_flag, !flags.dump_folder.empty()));
  if (!flags.test_data.empty() && !model.compiled && !profiles.empty())
    return fail(ErrorCode::kInvalidArgument,
                "--dim and --shape plan ahead while compiling and size random inputs: with "
                "--test-data and nothing to compile they have no effect");
  if (!flags.test_data.empty()) return run_test_data(flags, model);
  return run_once(flags, model, profiles.empty() ? ShapeProfile{} : profiles.front());
}

}  // namespace

void add_run(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = cli.app.add_subcommand(
      "run", "run a plain model (compiled in memory first) or a context model");
  verb->add_option("model", flags->model, "an ONNX model or a context model")
      ->type_name("MODEL")
      ->required();
  verb->add_option(
          "--input", flags->inputs,
          "an input from a file: .npy, .npz, .pb (TensorProto, SequenceProto, ...), else raw elements; "
          "FILE.npz alone: every array of it; may be repeated; inputs not given are random")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  verb->add_option("--test-data", flags->test_data,
                   "run with input_N.pb and compare with output_N.pb in DIR or in each "
                   "DIR/test_data_set_*")
      ->type_name("DIR");
  add_tolerance_flags(*verb, flags->tolerance);
  verb->add_option("--seed", flags->seed, "seed of the random inputs")
      ->type_name("N")
      ->transform(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  verb->add_option("--output-dir", flags->output_folder, "write each output as NAME.npy")
      ->type_name("DIR");
  verb->add_option("--dump", flags->dump_folder,
                   "write every value of the run, those inside of partitions, too, as "
                   "NUMBER_NAME.npy, and values.json, which says what each is; DIR has to be empty")
      ->type_name("DIR");
  verb->add_option(
          "--state", flags->options.states,
          "an input that an empty state gives, and the output that it keeps (past=present), or auto "
          "for all that have usual names; with --test-data each data set continues the one before; may be "
          "repeated")
      ->type_name("PAIR")
      ->allow_extra_args(false);
  verb->add_option("--profile", flags->profile,
                   "write the time of each primitive and kernel, for chrome://tracing and Perfetto")
      ->type_name("FILE.json");
  verb->add_option("--output-file", flags->output_file, "write all outputs into one .npz file")
      ->type_name("FILE.npz")
      ->check([](const std::string& text) {
        return text.ends_with(".npz") ? std::string() : "\"" + text + "\" does not end with .npz";
      });
  add_model_flags(*verb, flags->options);
  add_run_flags(*verb, flags->options);
  verb->add_option(
          "--require-signed", flags->options.required_signature.key,
          "refuse a context model unless the holder of this key signed all of its files: a "
          "public key, or certificates (PEM)")
      ->type_name("FILE.pem");
  verb->add_option("--signature", flags->options.required_signature.signature,
                   "the signature (default: model.sig in the model's folder)")
      ->type_name("FILE");
  verb->add_flag("--json", flags->json, "print JSON");
  add_options_file(*verb, flags->options_file);
  add_verbosity(*verb, flags->verbosity);
  verb->footer(kExamples);
  verb->callback([&cli, flags, verb] {
    cli.action = [flags, verb]() -> Result<int> {
      CTXGEN_CHECK(check_given(*verb));
      return run(*flags, compile_only_flag(*verb));
    };
  });
}

}  // namespace ctxgen::cli
