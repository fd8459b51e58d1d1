#include <algorithm>
#include <format>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ctxgen/base/json.h"
#include "ctxgen/runtime/verify.h"
#include "ctxgen/tuning/proof.h"

#include "cli.h"
#include "flags/arguments.h"
#include "flags/model_flags.h"
#include "flags/options_file.h"
#include "flags/value_checks.h"
#include "io/tensor_files.h"
#include "io/test_data.h"
#include "running/input_sizes.h"
#include "running/open_model.h"
#include "running/sample_file.h"
#include "running/special_values.h"
#include "running/verify_runs.h"
#include "show/certificate_fields.h"
#include "term/console.h"
#include "term/text_table.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kExamples =
    "Without --against only the integrity of the model and its context binaries is verified.\n"
    "Each partition runs on the source's values, so the first one named is the one at fault.\n"
    "Exit status: 0 intact and equal, 2 damaged; 4 outputs differ, a tool changed the model since it was\n"
    "compiled, or nothing in it is compiled.\n"
    "\n"
    "Examples:\n"
    "  ctxgen verify model_ctx.onnx\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx --dim batch=1,8 --runs 5\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx --input x=x.npy --json\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx --per-node -v\n"
    "      where an error comes from: it grows along a partition\n"
    "  ctxgen verify model_ctx.onnx --against model.onnx --samples samples.npz\n"
    "      of a model compiled with --max-error: repeats the proof of its errors\n";

struct Flags {
  std::string context;
  std::string source;
  std::string external_data_folder;
  std::vector<std::string> inputs, dims, shapes;
  std::string test_data, samples;
  std::uint64_t seed = 0, runs = 3;
  std::int64_t threads = 0;
  ToleranceOverrides tolerance;
  std::vector<std::string> special_values{"nan", "infinity"};
  std::string options_file;
  bool per_node = false;
  bool json = false;
  Verbosity verbosity;
};

Result<std::vector<VerificationInputs>> inputs_of(const Flags& flags, const Session& context) {
  std::vector<VerificationInputs> all;
  if (flags.test_data.empty()) {
    const auto profiles = CTXGEN_TRY(parse_profiles(flags.dims, flags.shapes));
    if (!flags.inputs.empty() && profiles.size() > 1)
      return fail(ErrorCode::kInvalidArgument,
                  "--input needs one size each: --dim and --shape give {} profiles",
                  profiles.size());
    const auto given = CTXGEN_TRY(read_inputs(
        flags.inputs, context.inputs(), profiles.empty() ? ShapeProfile{} : profiles.front()));
    for (const ShapeProfile& profile : profiles)
      CTXGEN_CHECK(check_sizes_used(context.inputs(),
                                    {given, raw_inputs(flags.inputs, context.inputs())}, profile));
    return random_verification_inputs(context.inputs(), given, profiles, flags.seed, flags.runs);
  }
  for (const auto& folder : CTXGEN_TRY(find_data_sets(flags.test_data))) {
    TestDataSet set = CTXGEN_TRY(read_data_set(folder, context.inputs(), context.outputs()));
    all.push_back({set.name, std::move(set.inputs)});
  }
  return all;
}

struct Comparisons {
  std::vector<VerificationRun> runs;
  std::vector<SpecialRun> special;
  [[nodiscard]] std::optional<Divergence> divergence() const {
    auto first = first_divergence(runs);
    return first ? first : finite_divergence(special);
  }
};

Result<Comparisons> compare_with_source(const Flags& flags) {
  SessionOptions options;
  options.threads = static_cast<int>(flags.threads);
  options.inner_values = flags.per_node;
  const auto context = CTXGEN_TRY(Session::open(flags.context, options));
  options.inner_values = false;
  options.external_data_folder = flags.external_data_folder;
  ModelInput source;
  source.path = flags.source;
  source.name = source.path.filename().string();
  const auto reference = CTXGEN_TRY(open_reference(*context, source, options));
  if (!flags.external_data_folder.empty())
    CTXGEN_CHECK(check_external_data(flags.source, flags.external_data_folder));
  const NumericPaths paths = CTXGEN_TRY(common_paths(*context, *reference));
  const auto inputs = CTXGEN_TRY(inputs_of(flags, *context));
  Comparisons all;
  all.runs = CTXGEN_TRY(verify_runs(*context, *reference, inputs, paths, flags.tolerance));
  if (!inputs.empty())
    all.special =
        CTXGEN_TRY(verify_special_values(*context, *reference, inputs.front(), flags.special_values,
                                         flags.seed, paths, flags.tolerance));
  return all;
}

/// What became of the certificate of a context model that has one.
struct CheckedCertificate {
  Certificate certificate;
  std::optional<RepeatedProof> repeated;
};

/// A compile of what the context model is of: all of the source, or a part.
Result<CompileOptions> options_of_source(const Flags& flags, const Session& context,
                                         const ModelInput& source, SessionOptions options) {
  options.external_data_folder = flags.external_data_folder;
  const auto whole = CTXGEN_TRY(open_source(source, options));
  CompileOptions part = part_compiled(context, *whole).value_or(CompileOptions());
  part.external_data_folder = flags.external_data_folder;
  if (part.input_names.empty() && part.output_names.empty()) return part;
  if (part_of_model(source, part)) return part;
  return CompileOptions();  // another model: comparing says what differs
}

SessionOptions session_options(const Flags& flags) {
  SessionOptions session;
  session.threads = static_cast<int>(flags.threads);
  return session;
}

/// --samples.
Result<CheckedCertificate> repeat_certificate(const Flags& flags) {
  const SessionOptions session = session_options(flags);
  const auto context = Session::open(flags.context, session);
  if (!context) {
    (void)CTXGEN_TRY(certificate_of(flags.context, session));  // why, in the proof's terms
    return std::unexpected(context.error());
  }
  auto certificate = CTXGEN_TRY((*context)->certificate());
  if (!certificate)
    return fail(ErrorCode::kNotSatisfied,
                "--samples: the context model has no certificate of its errors");
  const ModelInput source = CTXGEN_TRY(model_input(flags.source));
  CompileOptions options = CTXGEN_TRY(options_of_source(flags, **context, source, session));
  options.threads = session.threads;
  options.external_data_folder = flags.external_data_folder;
  const SampleArrays samples = CTXGEN_TRY(read_sample_file(flags.samples));
  const RepeatedProof repeated =
      CTXGEN_TRY(repeat_proof(**context, *certificate, source, options, samples));
  return CheckedCertificate{.certificate = *std::move(certificate), .repeated = repeated};
}

Result<std::optional<CheckedCertificate>> check_proof(const Flags& flags) {
  if (!flags.samples.empty()) return CTXGEN_TRY(repeat_certificate(flags));
  auto certificate = CTXGEN_TRY(certificate_of(flags.context, session_options(flags)));
  if (!certificate) return std::nullopt;
  return CheckedCertificate{.certificate = *std::move(certificate), .repeated = std::nullopt};
}

void write_proof(JsonWriter& json, const CheckedCertificate& checked) {
  json.begin_object();
  write_certificate_fields(json, checked.certificate);
  json.key("repeated");
  if (checked.repeated)
    json.begin_object()
        .field("searched_error", checked.repeated->searched_error)
        .field("held_out_error", checked.repeated->held_out_error)
        .end_object();
  else
    json.null();
  json.end_object();
}

std::string certificate_text(const CheckedCertificate& checked) {
  std::string text = "certificate: " + to_string(checked.certificate) + "\n";
  if (checked.repeated)
    text +=
        std::format("  repeated: {:.3g} on the samples of the search, {:.3g} on those held out\n",
                    checked.repeated->searched_error, checked.repeated->held_out_error);
  return text;
}

std::string_view word(Integrity state) {
  switch (state) {
    case Integrity::kIntact: return "intact";
    case Integrity::kNotCovered: return "not covered";
    case Integrity::kNotCompiled: return "not compiled";
    case Integrity::kChanged: return "changed";
    case Integrity::kDamaged: break;
  }
  return "damaged";
}

bool is_intact(const IntegrityFinding& finding) {
  return finding.state == Integrity::kIntact || finding.state == Integrity::kNotCovered;
}

std::string json_text(const Flags& flags, const std::vector<IntegrityFinding>& findings,
                      const Comparisons* comparisons, const CheckedCertificate* proof) {
  JsonWriter json;
  json.begin_object().field("context", flags.context).key("against");
  flags.source.empty() ? json.null() : json.value(flags.source);
  json.field("intact", std::ranges::all_of(findings, is_intact)).key("integrity").begin_array();
  for (const IntegrityFinding& finding : findings)
    json.begin_object()
        .field("what", finding.what)
        .field("intact", is_intact(finding))
        .field("state", word(finding.state))
        .field("detail", finding.detail)
        .end_object();
  json.end_array().key("certificate");
  if (proof != nullptr)
    write_proof(json, *proof);
  else
    json.null();
  if (comparisons != nullptr) {
    write_runs(json, comparisons->runs, comparisons->divergence(), flags.tolerance);
    write_special_runs(json, comparisons->special);
  }
  json.end_object();
  return json.finish();
}

std::string plain_text(const Flags& flags, const std::vector<IntegrityFinding>& findings,
                       const Comparisons* comparisons, const CheckedCertificate* proof) {
  TextTable table;
  for (const IntegrityFinding& finding : findings)
    table.row({finding.state == Integrity::kDamaged ? "DAMAGED" : std::string(word(finding.state)),
               finding.what, finding.detail});
  std::string text = table.text();
  if (proof != nullptr) text += certificate_text(*proof);
  if (comparisons != nullptr)
    return text + runs_text(comparisons->runs, flags.verbosity.verbose > 0) +
           special_runs_text(comparisons->special);
  if (flags.source.empty()) text += "outputs were not compared: --against MODEL names the source\n";
  return text;
}

Result<int> run(const Flags& flags) {
  apply(flags.verbosity);
  SessionOptions options;
  options.threads = static_cast<int>(flags.threads);
  const auto findings = CTXGEN_TRY(verify_integrity(flags.context, options));
  const auto& worst = std::ranges::max(findings, {}, &IntegrityFinding::state);
  Comparisons comparisons;
  const bool compared = !flags.source.empty() && flags.samples.empty() &&
                        (is_intact(worst) || worst.state == Integrity::kChanged);
  if (compared) comparisons = CTXGEN_TRY(compare_with_source(flags));
  const auto* shown = compared ? &comparisons : nullptr;
  std::optional<CheckedCertificate> proof;
  if (is_intact(worst)) proof = CTXGEN_TRY(check_proof(flags));
  const auto* proved = proof ? &*proof : nullptr;
  if (flags.json || !flags.verbosity.quiet)
    CTXGEN_CHECK(print(flags.json ? json_text(flags, findings, shown, proved)
                                  : plain_text(flags, findings, shown, proved)));
  if (!is_intact(worst))
    return fail(
        worst.state == Integrity::kDamaged ? ErrorCode::kCorruptContext : ErrorCode::kNotSatisfied,
        "{}: {}", worst.what, worst.detail);
  if (const auto divergence = comparisons.divergence())
    return fail(ErrorCode::kNotSatisfied, "{}", divergence_text(*divergence));
  if (proof && !proof->repeated)
    return fail(
        ErrorCode::kNotSatisfied,
        "the proof of the model's errors cannot be repeated: --samples FILE.npz (hash {}) and "
        "--against MODEL are needed",
        proof->certificate.samples.hex());
  return 0;
}

/// Options that the chosen way of verifying would ignore.
Status check_given(const CLI::App& verb) {
  for (const char* name :
       {"--input", "--test-data", "--dim", "--shape", "--seed", "--runs", "--rtol", "--atol",
        "--external-data-dir", "--special-values", "--per-node"})
    if (verb.count("--against") == 0 && verb.count(name) > 0)
      return fail(ErrorCode::kInvalidArgument, "{} needs --against", name);
  if (verb.count("--samples") > 0 && verb.count("--against") == 0)
    return fail(ErrorCode::kInvalidArgument, "--samples needs --against");
  for (const char* name : {"--input", "--test-data", "--dim", "--shape", "--seed", "--runs",
                           "--rtol", "--atol", "--special-values", "--per-node"})
    if (verb.count("--samples") > 0 && verb.count(name) > 0)
      return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with --samples", name);
  if (const auto* words = verb.get_option("--special-values");
      words->count() > 1 && std::ranges::contains(words->results(), "none"))
    return fail(ErrorCode::kInvalidArgument,
                "--special-values: none cannot be combined with other values");
  for (const char* name : {"--input", "--dim", "--shape", "--seed", "--runs"})
    if (verb.count("--test-data") > 0 && verb.count(name) > 0)
      return fail(ErrorCode::kInvalidArgument, "{} cannot be combined with --test-data", name);
  return {};
}

void add_input_flags(CLI::App& verb, Flags& flags) {
  verb.add_option("--input", flags.inputs,
                  "an input from a file, as for ctxgen run; may be repeated; others are random")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  verb.add_option("--test-data", flags.test_data,
                  "inputs from input_N.pb in DIR or in each DIR/test_data_set_*")
      ->type_name("DIR");
  verb.add_option("--dim", flags.dims,
                  "sizes of a symbolic dimension; each is run; may be repeated")
      ->type_name("NAME=N[,N...]")
      ->allow_extra_args(false);
  verb.add_option("--shape", flags.shapes, "shapes of an input; each is run; may be repeated")
      ->type_name("INPUT=1x3x224x224[,...]")
      ->allow_extra_args(false);
  verb.add_option("--seed", flags.seed, "seed of the first random inputs")
      ->type_name("N")
      ->transform(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  verb.add_option("--runs", flags.runs, "random inputs per size")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole_number(1, 1'000'000));
  verb.add_option(
          "--special-values", flags.special_values,
          "further runs with a NaN and with infinities in the first inputs: nan, infinity or none "
          "(default: nan,infinity)")
      ->type_name("WORD[,WORD]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"nan", "infinity", "none"}));
}

}  // namespace

void add_verify(Cli& cli) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* verb = cli.app.add_subcommand(
      "verify", "check that a context model is intact and computes what its source does");
  verb->add_option("context", flags->context, "a context model")->type_name("CONTEXT")->required();
  verb->add_option("--against", flags->source,
                   "the model that it was compiled from, run on CPU kernels")
      ->type_name("MODEL");
  verb->add_option("--external-data-dir", flags->external_data_folder,
                   "folder of the source's external data (default: the source's folder)")
      ->type_name("DIR");
  add_input_flags(*verb, *flags);
  verb->add_option("--samples", flags->samples,
                   "repeat the proof of a model compiled with --max-error, on the same file of "
                   "samples")
      ->type_name("FILE.npz");
  verb->add_flag("--per-node", flags->per_node,
                 "compare the values inside of partitions, too, each named by its node");
  add_tolerance_flags(*verb, flags->tolerance);
  verb->add_option("--threads", flags->threads, "threads to run with")
      ->type_name("N")
      ->transform(thread_count());
  verb->add_flag("--json", flags->json, "print JSON");
  add_options_file(*verb, flags->options_file);
  add_verbosity(*verb, flags->verbosity);
  verb->footer(kExamples);
  verb->callback([&cli, flags, verb] {
    cli.action = [flags, verb]() -> Result<int> {
      CTXGEN_CHECK(check_given(*verb));
      return run(*flags);
    };
  });
}

}  // namespace ctxgen::cli
