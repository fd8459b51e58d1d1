#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "ctxgen/compiler/compile.h"

#include "output/write_outputs.h"

namespace ctxgen {

struct BuiltModels;
struct CompileEnv;
struct PreparedModels;
struct RewrittenModels;

/// Contradictions between inputs, outputs and options that need no look at a model.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status check_file_options(const std::vector<ModelInput>& inputs,
                                        const std::vector<std::filesystem::path>& outputs,
                                        const CompileOptions& options);

/// Where the bin of `provider` goes.
[[nodiscard]] std::filesystem::path bin_path(const std::vector<std::filesystem::path>& outputs,
                                             const CompileOptions& options,
                                             std::string_view provider);

/// How every one of `outputs` names the bin that they share.
/// Errors  INVALID_ARGUMENT: outputs of several folders, a bin that does not be below theirs.
[[nodiscard]] Result<std::string> shared_bin_reference(
    const std::vector<std::filesystem::path>& outputs, const std::filesystem::path& bin);

/// For no_clobber.
/// Errors  INVALID_ARGUMENT if `path` exists.
[[nodiscard]] Status refuse_existing(const std::filesystem::path& path,
                                     const CompileOptions& options);

/// The files of a finished compile, bins first. They refer to the arguments. Enters bins and names of models in
/// the report of `built`.
[[nodiscard]] Result<std::vector<OutputFile>> plan_files(const PreparedModels& prepared,
                                                         BuiltModels& built,
                                                         const RewrittenModels& rewritten,
                                                         const CompileEnv& env);

}  // namespace ctxgen
