#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ctxgen/compiler/regroup.h"

#include "cli.h"

namespace ctxgen::cli {

/// What the verbs that write context models again have in common.
struct RegroupFlags {
  std::vector<std::string> models;
  std::string output;
  CompileOptions options;  // where the same option of compile is meant
  bool json = false;
  Verbosity verbosity;
};

/// -o, --json and what decides whether files that are there may be replaced. `output_help`: of -o.
void add_regroup_flags(CLI::App& verb, RegroupFlags& flags, const std::string& output_help);
/// --bin and --external-initializers.
void add_regroup_names(CLI::App& verb, RegroupFlags& flags);
/// All of a verb for one context model, whose output is a file or in a folder.
void add_regroup_one(Cli& cli, CLI::App& verb, bool embed);

enum class RegroupOutput { kFolder, kFileOrFolder };

/// Writes the models again and prints what became of them.
[[nodiscard]] Result<int> regroup_models(const RegroupFlags& flags, RegroupOutput output);

}  // namespace ctxgen::cli
