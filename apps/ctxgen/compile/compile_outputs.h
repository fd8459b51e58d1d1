#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// What is compiled to where.
struct OutputPlan {
  std::vector<std::string> inputs;             // files, or "-" for stdin
  std::vector<std::filesystem::path> outputs;  // one per input; none if to_stdout
  bool to_stdout = false;
  std::filesystem::path new_folder;  // to be made first; empty: none
};

/// The models that the arguments name: each splits at commas unless it names an existing file.
[[nodiscard]] std::vector<std::string> expand_models(const std::vector<std::string>& arguments);

/// Decides the output files from the arguments and -o ("": not given). /dev/stdout is -.
/// Errors  INVALID_ARGUMENT: equal stems in a batch, a folder where a file is needed or the other way
///         round, stdin without -o.
[[nodiscard]] Result<OutputPlan> plan_outputs(const std::vector<std::string>& arguments,
                                              const std::string& output);
/// The same for models that are files already, whatever is in their names.
[[nodiscard]] Result<OutputPlan> plan_outputs_of(std::vector<std::string> models,
                                                 const std::string& output);

}  // namespace ctxgen::cli
