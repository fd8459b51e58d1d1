#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/compiler/compile.h"

namespace ctxgen {

/// Where a context model goes: to a file with its bins next to it, to a function, or, with neither,
/// to memory.
struct ModelOutput {
  std::filesystem::path path;
  /// Called with one piece after another; an error ends the compile.
  std::function<Status(std::span<const std::byte>)> write;
};

struct CompiledModels {
  std::vector<Blob> models;  // by input; empty for those that went to a file or a function
  /// What was not written to files, by the names that the models give: bins, the file of external
  /// initializers, bins of foreign EPContext nodes.
  std::vector<std::pair<std::string, Blob>> bins;
  CompileReport report;
};

/// Compiles the models of one group: one context model each and one bin per provider for all.
///
/// Outputs  all are files, or none is. Without files the bins come back in memory, unless
///          options.context_file_path or options.bin says where they are to be: then they are
///          written there, complete or not at all, and appear when every model has been handed out.
///          A model without a file is named after context_file_path or its input.
/// Errors   INVALID_ARGUMENT: numbers that differ, an output with path and function, files and
///          others mixed; as compile_to_files otherwise.
[[nodiscard]] Result<CompiledModels> compile_models(const std::vector<ModelInput>& inputs,
                                                    const std::vector<ModelOutput>& outputs,
                                                    const CompileOptions& options);

/// Whether compile_models() with these arguments would begin to compile: to be asked before something that takes long and
/// is of no use otherwise. Reads the models, writes nothing.
/// Errors  those of compile_models() that need no compile; with no_clobber also INVALID_ARGUMENT where something exists that
///         goes next to the models.
[[nodiscard]] Status check_compile(const std::vector<ModelInput>& inputs,
                                   const std::vector<ModelOutput>& outputs,
                                   const CompileOptions& options);

}  // namespace ctxgen
