#include "flags/model_flags.h"

#include <unistd.h>

#include "ctxgen/base/file.h"
#include "flags/arguments.h"
#include "flags/value_checks.h"

namespace ctxgen::cli {
namespace {

/// Protobuf's own limit: no ModelProto is larger.
constexpr std::uint64_t kMaxModelBytes = (std::uint64_t{1} << 31) - 1;

const std::vector<std::pair<std::string, int>> kOptimizationLevels = {
    {"none", static_cast<int>(GraphOptimization::kNone)},
    {"basic", static_cast<int>(GraphOptimization::kBasic)},
    {"extended", static_cast<int>(GraphOptimization::kExtended)},
    {"all", static_cast<int>(GraphOptimization::kAll)},
};

const std::vector<std::pair<std::string, int>> kVerifyBlobs = {
    {"auto", static_cast<int>(VerifyBlobs::kAuto)},
    {"always", static_cast<int>(VerifyBlobs::kAlways)},
    {"never", static_cast<int>(VerifyBlobs::kNever)},
};

}  // namespace

void add_model_flags(CLI::App& verb, ModelFlags& flags) {
  verb.add_option("--provider", flags.providers,
                  "providers by priority, separated by commas; cpu takes what is left (default: dnnl,cpu)")
      ->type_name("A,B,...");
  verb.add_option("--provider-option", flags.provider_options,
                  "an option of one provider (ctxgen providers lists them); may be repeated")
      ->type_name("NAME:KEY=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--dim", flags.dims,
                  "plan ahead for sizes of a symbolic dimension; may be repeated")
      ->type_name("NAME=N[,N...]")
      ->allow_extra_args(false);
  verb.add_option("--shape", flags.shapes, "plan ahead for shapes of an input; may be repeated")
      ->type_name("INPUT=1x3x224x224[,...]")
      ->allow_extra_args(false);
  verb.add_option("--fix-dim", flags.fix_dims,
                  "replace a symbolic dimension of the model by a number; may be repeated")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  verb.add_flag("--freeze-initializers", flags.freeze_initializers,
                "treat initializers that are graph inputs as constants");
  verb.add_option("--graph-optimization", flags.graph_optimization,
                  "simplify nodes outside of partitions too (default: none)")
      ->type_name("none|basic|extended|all")
      ->transform(one_word_of(kOptimizationLevels));
  verb.add_flag("--subgraphs", flags.subgraphs,
                "compile in bodies of If, Loop and Scan too; stock ONNX Runtime may not load that");
  verb.add_option("--external-data-dir", flags.external_data_folder,
                  "folder of the model's external data (default: the model's folder)")
      ->type_name("DIR");
  verb.add_option("--threads", flags.threads,
                  "threads to plan for and to run with (default: physical cores allowed here)")
      ->type_name("N")
      ->transform(thread_count());
}

void add_target_flags(CLI::App& verb, ModelFlags& flags) {
  verb.add_flag("--portable", flags.portable,
                "programs for any x86-64 machine: weights are stored plain and packed at load");
  verb.add_option("--isa", flags.isas,
                  "compile for this instruction set instead of this machine's (ctxgen providers names "
                  "it); for several: a load picks the best")
      ->type_name("NAME[,NAME...]");
}

void add_run_flags(CLI::App& verb, ModelFlags& flags) {
  verb.add_option("--kept-plans", flags.kept_plans,
                  "plans that a partition keeps for shapes which were not planned ahead")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole_number(1, 4096));
  verb.add_option("--verify-blobs", flags.verify_blobs,
                  "compare a context model's weights, and what stays in the model, with their hashes at load "
                  "(default: auto, each part below 16 MiB)")
      ->type_name("auto|always|never")
      ->transform(one_word_of(kVerifyBlobs));
}

Result<CompileOptions> compile_options(const ModelFlags& flags) {
  CompileOptions options;
  if (flags.providers) options.providers = split(*flags.providers, ',');
  for (const std::string& name : options.providers)
    if (name.empty())
      return fail(ErrorCode::kInvalidArgument, "--provider: \"{}\" has an empty name",
                  *flags.providers);
  for (const std::string& text : flags.provider_options) {
    const std::size_t colon = text.find(':');
    const std::size_t equals = text.find('=', colon == std::string::npos ? 0 : colon);
    if (colon == std::string::npos || colon == 0 || equals == std::string::npos ||
        equals == colon + 1)
      return fail(ErrorCode::kInvalidArgument, "--provider-option: \"{}\" is not NAME:KEY=VALUE",
                  text);
    options.provider_options.push_back(
        {text.substr(0, colon),
         {text.substr(colon + 1, equals - colon - 1), text.substr(equals + 1)}});
  }
  options.profiles = CTXGEN_TRY(parse_profiles(flags.dims, flags.shapes));
  for (const std::string& text : flags.fix_dims) {
    const auto [name, value] = CTXGEN_TRY(parse_pair(text, "--fix-dim"));
    options.fix_dims.emplace_back(name, CTXGEN_TRY(parse_count(value, "--fix-dim")));
  }
  options.freeze_initializers = flags.freeze_initializers;
  options.graph_optimization = flags.graph_optimization;
  options.subgraphs = flags.subgraphs;
  options.external_data_folder = flags.external_data_folder;
  options.threads = static_cast<int>(flags.threads);
  options.portable = flags.portable;
  if (!flags.isas.empty()) options.isas = split(flags.isas, ',');
  options.jobs = static_cast<int>(flags.jobs);
  return options;
}

Result<ModelInput> model_input(const std::string& argument) {
  ModelInput input;
  if (argument == "-") {
    input.bytes = CTXGEN_TRY(read_stream(STDIN_FILENO, kMaxModelBytes));
    input.name = "stdin.onnx";
    return input;
  }
  input.path = argument;
  input.name = input.path.filename().string();
  if (input.name.empty())
    return fail(ErrorCode::kInvalidArgument, "model \"{}\" has no file name", argument);
  return input;
}

std::string compile_only_flag(const CLI::App& verb) {
  for (const char* name : {"--provider", "--provider-option", "--fix-dim",
                           "--freeze-initializers", "--graph-optimization", "--subgraphs",
                           "--external-data-dir"})
    if (verb.count(name) > 0) return name;
  return "";
}

}  // namespace ctxgen::cli
