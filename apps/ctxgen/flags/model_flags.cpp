#include "flags/model_flags.h"

#include <unistd.h>

#include "ctxgen/base/file.h"

#include "flags/arguments.h"
#include "flags/option_flags.h"
#include "flags/value_checks.h"

namespace ctxgen::cli {
namespace {

/// Protobuf's own limit: no ModelProto is larger.
constexpr std::uint64_t kMaxModelBytes = (std::uint64_t{1} << 31) - 1;

const std::vector<std::pair<std::string, int>> kVerifyBlobs = {
    {"auto", static_cast<int>(VerifyBlobs::kAuto)},
    {"always", static_cast<int>(VerifyBlobs::kAlways)},
    {"never", static_cast<int>(VerifyBlobs::kNever)},
};

/// "a,b" and "c" are a, b, c.
Result<std::vector<std::string>> names_in(const std::vector<std::string>& texts,
                                          const char* option) {
  std::vector<std::string> names;
  for (const std::string& text : texts)
    for (std::string& name : split(text, ',')) {
      if (name.empty())
        return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" has an empty name", option, text);
      names.push_back(std::move(name));
    }
  return names;
}

}  // namespace

void add_model_flags(CLI::App& verb, ModelFlags& flags) {
  add_text_flag(verb, flags.providers, &CompileOptions::providers);
  add_text_flag(verb, flags.provider_options, &CompileOptions::provider_options);
  add_text_flag(verb, flags.dims, &CompileOptions::profiles);
  verb.add_option("--shape", flags.shapes, "plan ahead for shapes of an input; may be repeated")
      ->type_name("INPUT=1x3x224x224[,...]")
      ->allow_extra_args(false);
  add_text_flag(verb, flags.fix_dims, &CompileOptions::fix_dims);
  add_text_flag(verb, flags.input_names, &CompileOptions::input_names);
  add_text_flag(verb, flags.output_names, &CompileOptions::output_names);
  for (const OptionSlot slot :
       {OptionSlot(&CompileOptions::freeze_initializers),
        OptionSlot(&CompileOptions::graph_optimization), OptionSlot(&CompileOptions::subgraphs),
        OptionSlot(&CompileOptions::external_data_folder), OptionSlot(&CompileOptions::threads)})
    add_option_flag(verb, flags.options, slot);
}

void add_target_flags(CLI::App& verb, ModelFlags& flags) {
  add_option_flag(verb, flags.options, &CompileOptions::portable);
  add_text_flag(verb, flags.isas, &CompileOptions::isas);
}

void add_run_flags(CLI::App& verb, ModelFlags& flags) {
  // Of a compile these say something else.
  verb.get_option("--threads")
      ->description(
          "threads to run with, and to compile a plain model with (default: physical cores allowed here)");
  verb.get_option("--dim")->description(
      "the size of a symbolic dimension, of random inputs and of a plain model's plan; may be repeated");
  verb.get_option("--shape")->description("the shape of an input, likewise; may be repeated");
  verb.add_option("--kept-plans", flags.kept_plans,
                  "plans that a partition keeps for shapes that were not planned ahead")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole_number(1, 4096));
  verb.add_option(
          "--verify-blobs", flags.verify_blobs,
          "check a context model's weights, and what stays in the model, against their hashes at load (default: auto, each part below 16 MiB)")
      ->type_name("auto|always|never")
      ->transform(one_word_of(kVerifyBlobs));
}

Result<CompileOptions> compile_options(const ModelFlags& flags) {
  CompileOptions options = flags.options;
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
  options.input_names = CTXGEN_TRY(names_in(flags.input_names, "--input-names"));
  options.output_names = CTXGEN_TRY(names_in(flags.output_names, "--output-names"));
  if (!flags.isas.empty()) options.isas = split(flags.isas, ',');
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
  for (const char* name :
       {"--provider", "--provider-option", "--fix-dim", "--input-names", "--output-names",
        "--freeze-initializers", "--graph-optimization", "--subgraphs", "--external-data-dir"})
    if (verb.count(name) > 0) return name;
  return "";
}

}  // namespace ctxgen::cli
