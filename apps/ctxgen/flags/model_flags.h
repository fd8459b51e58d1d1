#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/trust/signed_files.h"

namespace ctxgen::cli {

/// Flags about how a model is compiled, shared by compile, explain, run and bench.
struct ModelFlags {
  CompileOptions options = options_named(OptionNames::kFlags);  // what flags set as it is given
  std::optional<std::string> providers;
  std::vector<std::string> provider_options;
  std::vector<std::string> dims;
  std::vector<std::string> shapes;
  std::vector<std::string> fix_dims;
  std::vector<std::string> input_names, output_names;
  std::string isas;
  std::int64_t kept_plans = 8;
  std::vector<std::string> states;  // SessionOptions::states
  std::optional<VerifyBlobs> verify_blobs;
  RequiredSignature required_signature;  // SessionOptions::required_signature
};

void add_model_flags(CLI::App& verb, ModelFlags& flags);
/// Flags about the machines to compile for, of verbs whose result is for later.
void add_target_flags(CLI::App& verb, ModelFlags& flags);
/// Flags of verbs that run a model.
void add_run_flags(CLI::App& verb, ModelFlags& flags);

/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Result<CompileOptions> compile_options(const ModelFlags& flags);

/// A model on the command line: a file, or "-" for stdin.
[[nodiscard]] Result<ModelInput> model_input(const std::string& argument);

/// What was given about compiling, for a model that is compiled already: "" if nothing.
[[nodiscard]] std::string compile_only_flag(const CLI::App& verb);

}  // namespace ctxgen::cli
