#include <algorithm>
#include <filesystem>
#include <format>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/file.h"
#include "ctxgen/base/log.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/compile_models.h"
#include "ctxgen/compiler/config_keys.h"
#include "ctxgen/runtime/verify.h"
#include "ctxgen/tuning/precision_search.h"
#include "ctxgen/tuning/proof.h"

#include "cli.h"
#include "compile/compile_outputs.h"
#include "compile/compile_report.h"
#include "compile/genai_folder.h"
#include "compile/list_run.h"
#include "compile/model_list.h"
#include "compile/progress.h"
#include "compile/provenance.h"
#include "compile/tuning.h"
#include "compile/up_to_date.h"
#include "compile/variant_process.h"
#include "flags/arguments.h"
#include "flags/build_flags.h"
#include "flags/config_arguments.h"
#include "flags/model_flags.h"
#include "flags/option_flags.h"
#include "flags/options_file.h"
#include "flags/value_checks.h"
#include "report/gather_report.h"
#include "report/report_page.h"
#include "report/write_report.h"
#include "running/sample_file.h"
#include "running/verify_runs.h"
#include "term/console.h"
#include "term/interrupt.h"
#include "term/time_left.h"

namespace ctxgen::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExamples =
    "Examples:\n"
    "  ctxgen compile resnet50.onnx\n"
    "      writes resnet50_ctx.onnx and resnet50_dnnl.bin next to the model\n"
    "  ctxgen compile resnet50.onnx -o build/net_ctx.onnx --dim batch=1,8\n"
    "  ctxgen compile encoder.onnx,decoder.onnx -o out/\n"
    "      two context models that share out/encoder_dnnl.bin\n"
    "  ctxgen compile phi-4-mini/ -o phi-4-mini-ctx/\n"
    "      a folder for ONNX Runtime GenAI (genai_config.json), as one whose models are compiled\n"
    "  ctxgen compile model.onnx --embed -o - > model_ctx.onnx\n"
    "  ctxgen compile model.onnx --strict --report report.json\n"
    "  ctxgen compile model.onnx --if-needed --depfile model.d\n"
    "      does nothing if the outputs are current; model.d is for make and ninja\n"
    "  ctxgen compile model.onnx --cache-dir ~/.cache/ctxgen/compile\n"
    "  ctxgen compile --list models.txt -o out -j 8 --json\n"
    "      each line of models.txt is a model and, after it, options of its own; a rerun\n"
    "      compiles what failed or changed. --shard 3/20 on the third of 20 machines\n";

struct Flags {
  std::vector<std::string> models;
  std::string list, shard;
  int shard_by_weights = 0;
  std::string output;
  std::string compress;  // the level, as given
  bool compresses = false;
  std::string report_file, page_file, provenance_file, builder;
  std::vector<std::string> config;
  OldArguments old;
  std::string options_file;
  BuildFlags build;
  ModelFlags model;
  std::string max_error, samples;
  TuningFlags tuning;
  bool verify = false;
  std::string variant;  // of variant_process.h
  bool json = false;
  Verbosity verbosity;
};

/// The page is made from what was written.
Status check_page(const Flags& flags, const CompileOptions& options, const OutputPlan& plan) {
  if (flags.page_file.empty()) return {};
  if (plan.inputs.size() > 1)
    return fail(ErrorCode::kInvalidArgument,
                "--html shows one model, got {}: use ctxgen report for each", plan.inputs.size());
  const char* const other = plan.to_stdout          ? "-o -"
                            : options.dry_run       ? "--dry-run"
                            : flags.build.if_needed ? "--if-needed"
                                                    : nullptr;
  if (other != nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "--html cannot be combined with {}: the page shows files that were just written "
                "(ctxgen report shows others)",
                other);
  return {};
}

Status check_flags(const Flags& flags, const CompileOptions& options, const OutputPlan& plan) {
  CTXGEN_CHECK(check_options(options, plan.inputs.size()));
  if (plan.to_stdout && !options.append.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        "-o - cannot be combined with --append: the model names the bin by a path relative to itself");
  if (plan.to_stdout && !options.embed && options.bin.empty())
    return fail(ErrorCode::kInvalidArgument,
                "-o -: the context binary needs a location: give --embed or --bin FILE");
  if (plan.to_stdout && !options.external_initializers.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        "-o - cannot be combined with --external-initializers: the file belongs next to the model");
  if (plan.to_stdout && flags.verify)
    return fail(ErrorCode::kInvalidArgument,
                "-o - cannot be combined with --verify: only a written file can be verified");
  if (plan.to_stdout && !options.context_file_path.empty())
    return fail(ErrorCode::kInvalidArgument, "-o - cannot be combined with ep.context_file_path={}",
                options.context_file_path.string());
  if (plan.to_stdout && flags.json)
    return fail(ErrorCode::kInvalidArgument,
                "-o - and --json both write to stdout: use --report FILE");
  if (!flags.builder.empty() && flags.provenance_file.empty())
    return fail(ErrorCode::kInvalidArgument, "--builder-id needs --provenance");
  if (!flags.provenance_file.empty() && (plan.to_stdout || options.dry_run))
    return fail(ErrorCode::kInvalidArgument,
                "--provenance cannot be combined with {}: it lists files that were written",
                plan.to_stdout ? "-o -" : "--dry-run");
  CTXGEN_CHECK(check_page(flags, options, plan));
  return check_build_flags(flags.build, options, plan, flags.verify);
}

/// A model to stdout goes after its bin, if that is a file: it appears when the model is out.
std::vector<ModelOutput> outputs_of(const OutputPlan& plan) {
  if (plan.to_stdout) return {{.path = {}, .write = print_bytes}};
  std::vector<ModelOutput> outputs;
  for (const fs::path& path : plan.outputs) outputs.push_back({.path = path, .write = {}});
  return outputs;
}

void name_stdout(CompileReport& report) {
  report.models.front().output_name = "-";
  report.files.push_back({"-", FileReport::Kind::kModel, report.models.front().model_bytes});
}

/// What is read and written here, besides the compile itself.
std::vector<FileUse> other_files(const Flags& flags, const OutputPlan& plan) {
  using How = FileUse::How;
  std::vector<FileUse> files;
  if (!flags.report_file.empty()) files.push_back({How::kWritten, flags.report_file, "--report"});
  if (!flags.page_file.empty()) files.push_back({How::kWritten, flags.page_file, "--html"});
  if (!flags.provenance_file.empty())
    files.push_back({How::kWritten, flags.provenance_file, "--provenance"});
  if (const fs::path depfile = depfile_of(flags.build, plan); !depfile.empty())
    files.push_back({How::kWritten, depfile, "the dependency file"});
  if (!flags.options_file.empty()) files.push_back({How::kRead, flags.options_file, "--options"});
  if (!flags.samples.empty()) files.push_back({How::kRead, flags.samples, "--samples"});
  if (!flags.tuning.file.empty())
    files.push_back(
        {flags.tuning.tunes ? How::kWritten : How::kRead, flags.tuning.file, "--tuning"});
  std::error_code ignored;
  if (plan.to_stdout && fs::exists("/dev/stdout", ignored))
    files.push_back({How::kWritten, "/dev/stdout", "the model on stdout"});
  if (std::ranges::contains(plan.inputs, "-"))
    files.push_back({How::kRead, "/dev/stdin", "the model on stdin"});
  return files;
}

Status write_report(const std::string& path, const CompileReport& report,
                    const std::vector<std::vector<VerificationRun>>& verifications) {
  if (path.empty()) return {};
  return write_file(path, as_bytes(report_json(report, verifications)));
}

Status write_page(const Flags& flags, const CompileReport& report, const OutputPlan& plan,
                  const ModelInput& input, const CompileOptions& options,
                  const std::vector<std::vector<VerificationRun>>& verifications) {
  if (flags.page_file.empty()) return {};
  ReportData data = CTXGEN_TRY(gather_written(report, 0, input, plan.outputs.front(), options));
  if (!verifications.empty()) data.verification = verifications.front();
  const std::string json = report_data_json(data);
  return write_file(flags.page_file, as_bytes(report_page(plan.outputs.front().filename().string(),
                                                          sentence_of(data), {&json, 1})));
}

/// --verify of a model compiled with --max-error: its outputs may be as far from f32 as its certificate says.
Status verify_certificate(const OutputPlan& plan, const ModelInput& input,
                          const CompileOptions& options, const SampleArrays& samples) {
  const fs::path& output = plan.outputs.front();
  const auto repeat = [&]() -> Status {
    SessionOptions session;
    session.threads = options.threads;
    const auto context = CTXGEN_TRY(Session::open(output, session));
    const auto certificate = CTXGEN_TRY(context->certificate());
    if (!certificate) return fail(ErrorCode::kNotSatisfied, "it has no certificate of its errors");
    (void)CTXGEN_TRY(repeat_proof(*context, *certificate, input, options, samples));
    return {};
  };
  const Status status = repeat();
  if (status) return {};
  return std::unexpected(with_context(
      status.error(), std::format("--verify: \"{}\" (written and kept)", output.string())));
}

using Verifications = std::vector<std::vector<VerificationRun>>;  // by model

/// --verify: each written context model next to its source, on random inputs of every profile.
Result<Verifications> verify_outputs_of(const OutputPlan& plan,
                                        const std::vector<ModelInput>& inputs,
                                        const CompileOptions& options) {
  Verifications all;
  for (std::size_t m = 0; m < inputs.size(); ++m) {
    const auto runs = verify_against(plan.outputs[m], inputs[m], options);
    if (!runs)
      return std::unexpected(
          with_context(runs.error(), std::format("--verify: \"{}\"", plan.outputs[m].string())));
    all.push_back(*runs);
  }
  return all;
}

/// Errors  NOT_SATISFIED naming the first partition that computes something else.
Status check_verifications(const OutputPlan& plan, const Verifications& all) {
  for (std::size_t m = 0; m < all.size(); ++m)
    if (const auto divergence = first_divergence(all[m]))
      return fail(ErrorCode::kNotSatisfied, "--verify: \"{}\" (written and kept): {}",
                  plan.outputs[m].string(), divergence_text(*divergence));
  return {};
}

Status summarise(const Flags& flags, const OutputPlan& plan, const CompileReport& report,
                 const Verifications& verifications) {
  for (const ModelReport& model : report.models) {
    for (const std::string& warning : model.warnings)
      log(LogLevel::kWarning, "{}: {}", model.input_name, warning);
    if (!model.unplanned.empty())
      log(LogLevel::kWarning, "{}: {}", model.input_name, model.unplanned);
  }
  CTXGEN_CHECK(write_report(flags.report_file, report, verifications));
  if (flags.json) return print(report_json(report, verifications));
  if (flags.verbosity.quiet) return {};
  const std::string text = report_text(report, verifications, flags.verbosity.verbose > 0);
  if (!plan.to_stdout) return print(text);
  note(std::string_view(text).substr(0, text.size() - 1));
  return {};
}

Result<int> compress_level(const Flags& flags) {
  if (!flags.compresses) return 0;
  const std::int64_t level = CTXGEN_TRY(parse_count(flags.compress, "--compress"));
  if (level < 1 || level > 19)
    return fail(ErrorCode::kInvalidArgument, "--compress: level {}, expected 1 to 19", level);
  return static_cast<int>(level);
}

/// What the flags say, then ONNX Runtime's keys.
Result<CompileOptions> all_options(const Flags& flags) {
  ModelFlags model = flags.model;
  std::vector<ConfigEntry> config = CTXGEN_TRY(parse_config(flags.config));
  CTXGEN_CHECK(apply_old_arguments(flags.old, model, config));
  CompileOptions options = CTXGEN_TRY(compile_options(model));
  options.compress_level = CTXGEN_TRY(compress_level(flags));
  CTXGEN_CHECK(apply_config(options, config));
  // The command line's default is that of ONNX Runtime's key, not that of its Compile API.
  if (!options.external_initializers.empty() && !options.external_threshold)
    options.external_threshold = 0;
  return options;
}

/// What --if-needed leaves to say; nothing if there is something to do.
Result<std::optional<CompileReport>> report_if_current(const std::vector<ModelInput>& inputs,
                                                       const OutputPlan& plan,
                                                       const CompileOptions& options, bool tunes) {
  CompileKey key = CTXGEN_TRY(compile_key(inputs, plan.outputs, options));
  Currency currency = look_at_outputs(plan.outputs, options, key);
  if (currency.why_not.empty() && tunes) currency.why_not = why_untuned(plan.outputs, options);
  if (!currency.why_not.empty()) {
    log(LogLevel::kInfo, "compiling: {}", currency.why_not);
    return std::nullopt;
  }
  CompileReport report;
  report.up_to_date = true;
  report.key = key.hash;
  report.files_read = std::move(key.files_read);
  report.files = std::move(currency.files);
  return report;
}

/// Out  options.tuning, where --tune is given and there is something to do.
Result<CompileReport> compile(const Flags& flags, const OutputPlan& plan,
                              const std::vector<ModelInput>& inputs, CompileOptions& options,
                              Progress& progress) {
  std::optional<CompileReport> report;
  const bool has_no_file = flags.tuning.tunes && options.tuning.library.empty();
  if (flags.build.if_needed && !has_no_file)
    report = CTXGEN_TRY(report_if_current(inputs, plan, options, flags.tuning.tunes));
  if (!report) {
    const std::vector<ModelOutput> outputs = outputs_of(plan);
    if (flags.tuning.tunes) CTXGEN_CHECK(check_compile(inputs, outputs, options));
    auto tuned = CTXGEN_TRY(tune(flags.tuning, inputs, options, progress));
    report = CTXGEN_TRY(compile_models(inputs, outputs, options)).report;
    if (plan.to_stdout) name_stdout(*report);
    report->tuning = std::move(tuned);
  }
  if (!flags.options_file.empty()) report->files_read.emplace_back(flags.options_file);
  if (!flags.samples.empty()) report->files_read.emplace_back(flags.samples);
  if (!flags.tuning.file.empty()) report->files_read.emplace_back(flags.tuning.file);
  return std::move(*report);
}

/// What --max-error and --samples ask for.
Result<std::optional<PrecisionRequest>> read_budget(const Flags& flags) {
  if (flags.max_error.empty() != flags.samples.empty())
    return fail(ErrorCode::kInvalidArgument, "--max-error and --samples need each other");
  if (flags.max_error.empty()) return std::nullopt;
  auto bound = parse_error_bound(flags.max_error);
  if (!bound) return std::unexpected(with_context(std::move(bound).error(), "--max-error"));
  return PrecisionRequest{.bound = *bound, .samples = CTXGEN_TRY(read_sample_file(flags.samples))};
}

Result<PrecisionChoice> search_for(const ModelInput& input, const CompileOptions& options,
                                   PrecisionRequest request, Progress& progress,
                                   std::optional<PrecisionSearchReport>& report) {
  const TimeLeft begun;
  request.progress = [&](const SearchProgress& at) {
    const std::string left = begun.text(static_cast<double>(at.trials) / at.most_trials);
    progress.say(std::format(
        "precision: trial {} of at most {}{}{}, {} of {} operators, error {:.3g}", at.trials,
        at.most_trials, left.empty() ? "" : ", at most ", left, at.narrow_ops, at.ops, at.error));
  };
  PrecisionFinding found = CTXGEN_TRY(search_precision(input, options, request));
  report = std::move(found.report);
  return std::move(found.choice);
}

/// This process compiles for one of several instruction sets; the one that started it does the rest.
Result<int> compile_variant(const Flags& flags) {
  set_log_function({}, LogLevel::kError);  // the other process says it all
  CompileOptions options = CTXGEN_TRY(all_options(flags));
  options.isas = {flags.variant};
  options.cancelled = interrupted;
  std::vector<ModelInput> inputs;
  for (const std::string& model : expand_models(flags.models))
    inputs.push_back(CTXGEN_TRY(model_input(model)));
  handle_interrupts(Interrupt::kCooperative);
  return run_variant(inputs, options);
}

/// What names one file, and a list has many models.
Status check_list_flags(const Flags& flags, const CompileOptions& options) {
  const std::pair<bool, std::string_view> ruled_out[] = {
      {!flags.models.empty(), "a model"},
      {!options.bin.empty() && options.append.empty(), "--bin"},
      {!options.append.empty(), "--append"},
      {!flags.report_file.empty(), "--report"},
      {!flags.provenance_file.empty(), "--provenance"},
      {!flags.build.depfile.empty() || flags.build.gcc_depfile, "--depfile"},
      {options.no_clobber, "--no-clobber"},
      {!options.like.empty(), "--like"},
      {!flags.max_error.empty() || !flags.samples.empty(), "--max-error"},
      {flags.tuning.tunes, "--tune"},
      {flags.output == "-", "-o -"},
      {!options.context_file_path.empty(), "ep.context_file_path"},
  };
  for (const auto& [given, name] : ruled_out)
    if (given)
      return fail(
          ErrorCode::kInvalidArgument,
          "--list cannot be combined with {}: each model of the list is compiled on its own", name);
  std::error_code ignored;
  if (!flags.output.empty() && fs::exists(flags.output, ignored) &&
      !fs::is_directory(flags.output, ignored))
    return fail(ErrorCode::kInvalidArgument, "-o: a list needs a folder, \"{}\" is a file",
                flags.output);
  return {};
}

Result<int> compile_list(const CLI::App& verb, const Flags& flags, const CompileOptions& options,
                         std::span<const std::string> words) {
  CTXGEN_CHECK(check_list_flags(flags, options));
  const Shard shard = CTXGEN_TRY(parse_shard(flags.shard, flags.shard_by_weights != 0));
  std::vector<GivenOption> common = CTXGEN_TRY(options_of_models(verb, words));
  const std::vector<ListedModel> models =
      take_shard(CTXGEN_TRY(read_model_list(verb, flags.list, flags.output)), shard);
  if (!flags.output.empty() && !options.dry_run) {
    std::error_code error;
    fs::create_directory(flags.output, error);
    if (error) return fail(ErrorCode::kIoError, "folder \"{}\": {}", flags.output, error.message());
  }
  handle_interrupts(Interrupt::kCooperative);
  return run_list(models, {.file = flags.list,
                           .common = std::move(common),
                           .processes = static_cast<std::size_t>(options.jobs),
                           .json = flags.json,
                           .verbosity = flags.verbosity});
}

Result<OutputPlan> plan_of(const Flags& flags, const CompileOptions& options,
                           const std::optional<GenaiFolder>& genai) {
  const std::string output =
      flags.output.empty() ? options.context_file_path.string() : flags.output;
  if (!genai) return plan_outputs(flags.models, output);
  const std::string folder = CTXGEN_TRY(output_of(*genai, output));
  CTXGEN_CHECK(check_companions(*genai, folder));
  return plan_outputs_of(models_of(*genai), folder);
}

fs::path folder_of(const OutputPlan& plan) { return plan.outputs.front().parent_path(); }

/// What makes the outputs a folder for GenAI.
Status finish_folder(const GenaiFolder& genai, const OutputPlan& plan, const CompileReport& report,
                     bool quiet) {
  const auto written = CTXGEN_TRY(write_companions(genai, folder_of(plan), report));
  if (!quiet)
    note(std::format("{}: names the context models; {} more file{} copied", written.back().string(),
                     written.size() - 1, written.size() == 2 ? "" : "s"));
  return {};
}

Result<int> run(const CLI::App& verb, const Flags& flags,
                const std::vector<std::string>& arguments) {
  apply(flags.verbosity);
  if (!flags.variant.empty()) return compile_variant(flags);
  CompileOptions options = CTXGEN_TRY(all_options(flags));
  if (!flags.list.empty())
    return compile_list(verb, flags, options, std::span(arguments).subspan(2));
  if (flags.models.empty())
    return fail(ErrorCode::kInvalidArgument,
                "compile needs MODEL[,MODEL...] or --list FILE (ctxgen compile --help)");
  if (!flags.shard.empty() || verb.count("--shard-by") > 0)
    return fail(ErrorCode::kInvalidArgument, "--shard needs --list: a share of a list of models");
  const auto genai = CTXGEN_TRY(find_genai_folder(flags.models));
  const OutputPlan plan = CTXGEN_TRY(plan_of(flags, options, genai));
  const std::optional<PrecisionRequest> budget = CTXGEN_TRY(read_budget(flags));
  if (budget) options.budget.request = describe(*budget);
  CTXGEN_CHECK(read_tuning(flags.tuning, flags.build.if_needed, options));
  CTXGEN_CHECK(check_flags(flags, options, plan));
  Progress progress(flags.verbosity.quiet, flags.verbosity.verbose > 0);
  options.progress = [&progress](CompileStage stage, double fraction) {
    progress.update(stage, fraction);
  };
  options.cancelled = interrupted;
  options.other_files = other_files(flags, plan);
  if (genai && !options.dry_run)
    std::ranges::move(CTXGEN_TRY(companion_uses(*genai, folder_of(plan))),
                      std::back_inserter(options.other_files));
  std::vector<ModelInput> inputs;
  for (const std::string& model : plan.inputs) inputs.push_back(CTXGEN_TRY(model_input(model)));
  options.start_variant = [&](const std::string& isa) {
    return start_variant(isa, arguments, inputs);
  };
  handle_interrupts(Interrupt::kCooperative);  // not before: reading stdin does not check for them
  options.make_folder = !plan.new_folder.empty();
  std::optional<PrecisionSearchReport> search;
  if (budget)
    options.budget.search = [&] {
      return search_for(inputs.front(), options, *budget, progress, search);
    };
  auto report = compile(flags, plan, inputs, options, progress);
  progress.clear();
  if (!report) return std::unexpected(report.error());
  report->precision_search = std::move(search);
  if (genai && !options.dry_run)
    CTXGEN_CHECK(finish_folder(*genai, plan, *report, flags.verbosity.quiet || flags.json));
  const Depfile depfile = CTXGEN_TRY(make_depfile(flags.build, plan, *report));
  Verifications verifications;
  if (flags.verify && budget)
    CTXGEN_CHECK(verify_certificate(plan, inputs.front(), options, budget->samples));
  else if (flags.verify)
    verifications = CTXGEN_TRY(verify_outputs_of(plan, inputs, options));
  CTXGEN_CHECK(write_page(flags, *report, plan, inputs.front(), options, verifications));
  if (!flags.provenance_file.empty())
    CTXGEN_CHECK(write_file(flags.provenance_file, as_bytes(CTXGEN_TRY(provenance_text(
                                                       *report, flags.builder, arguments)))));
  CTXGEN_CHECK(summarise(flags, plan, *report, verifications));
  CTXGEN_CHECK(check_verifications(plan, verifications));
  CTXGEN_CHECK(write_depfile(depfile));
  return 0;
}

}  // namespace

void add_compile(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App& verb = *cli.app.add_subcommand("compile", "compile models into context models");
  verb.add_option("model", flags->models,
                  "ONNX models, separated by commas or blanks; - is stdin. Several share one "
                  "context binary")
      ->type_name("MODEL[,MODEL...]");
  verb.add_option(
          "--list", flags->list,
          "compile each model of this file on its own, -j of them at a time: on each line a model "
          "and options of its own (docs/cli.md)")
      ->type_name("FILE");
  verb.add_option("--shard", flags->shard, "only a share of the list: the Ith of N")
      ->type_name("I/N");
  verb.add_option(
          "--shard-by", flags->shard_by_weights,
          "what decides the share of a model: its path in the list, or which weights it has in common "
          "with others (default: path)")
      ->type_name("path|weights")
      ->transform(one_word_of({{"path", 0}, {"weights", 1}}));
  verb.add_option("-o,--output", flags->output,
                  "the context model, or a folder; - is stdout (default: MODEL_ctx.onnx)")
      ->type_name("OUT");
  CompileOptions& options = flags->model.options;
  for (const OptionSlot slot :
       {OptionSlot(&CompileOptions::embed), OptionSlot(&CompileOptions::bin),
        OptionSlot(&CompileOptions::append), OptionSlot(&CompileOptions::node_prefix),
        OptionSlot(&CompileOptions::external_initializers),
        OptionSlot(&CompileOptions::external_threshold)})
    add_option_flag(verb, options, slot);
  verb.add_option("--config", flags->config,
                  "one of ONNX Runtime's session keys (docs/options.md); may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_option_flag(verb, options, &CompileOptions::weight_memory_bytes);
  cli.may_be_empty.insert(add_option_flag(verb, options, &CompileOptions::cache_dir));
  for (const OptionSlot slot :
       {OptionSlot(&CompileOptions::cache_max_bytes), OptionSlot(&CompileOptions::cache_url),
        OptionSlot(&CompileOptions::cache_headers),
        OptionSlot(&CompileOptions::cache_timeout_seconds)})
    add_option_flag(verb, options, slot);
  add_model_flags(verb, flags->model);
  add_target_flags(verb, flags->model);
  const OptionRow& compress = option_row(&CompileOptions::compress_level);
  verb.add_flag(std::string(compress.flag) + "{9}", flags->compress, std::string(compress.help))
      ->type_name(std::string(compress.value));
  add_text_flag(verb, flags->max_error, &CompileOptions::budget);
  verb.add_option(
          "--samples", flags->samples,
          "what --max-error is measured on: for each input an array of its name, the samples "
          "one after the other")
      ->type_name("FILE.npz");
  add_tuning_flags(verb, flags->tuning);
  add_option_flag(verb, options, &CompileOptions::strict);
  add_option_flag(verb, options, &CompileOptions::require_compiled);
  add_option_flag(verb, options, &CompileOptions::require_runnable);
  add_option_flag(verb, options, &CompileOptions::like);
  verb.add_flag(
      "--verify", flags->verify,
      "compare the written models with their sources on random inputs; status 4 if they differ");
  add_build_flags(verb, flags->build, options);
  add_option_flag(verb, options, &CompileOptions::no_clobber);
  add_option_flag(verb, options, &CompileOptions::force);
  add_option_flag(verb, options, &CompileOptions::jobs);
  verb.add_option("--report", flags->report_file, "write the summary as JSON")
      ->type_name("FILE.json");
  verb.add_option(
          "--html", flags->page_file,
          "write a page that shows what became of the model, as ctxgen report --no-run does")
      ->type_name("FILE.html");
  verb.add_option("--provenance", flags->provenance_file,
                  "write where the outputs come from, as in-toto's statement with SLSA provenance")
      ->type_name("FILE.json");
  verb.add_option("--builder-id", flags->builder,
                  "who compiles, in the provenance (default: urn:ctxgen)")
      ->type_name("URI");
  verb.add_flag("--json", flags->json, "print the summary as JSON");
  add_options_file(verb, flags->options_file);
  add_verbosity(verb, flags->verbosity);
  add_old_arguments(verb, flags->old);
  verb.footer(kExamples);
  verb.add_option("--variant", flags->variant)->group("");  // not for users
  verb.callback([&cli, &verb, flags] {
    flags->compresses = verb.count("--compress") > 0;
    flags->tuning.tunes = verb.count("--tune") > 0;
    cli.action = [&cli, &verb, flags] { return run(verb, *flags, cli.arguments); };
  });
}

}  // namespace ctxgen::cli
