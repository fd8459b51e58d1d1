#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "ctxgen/compiler/compile.h"

#include "compile/progress.h"

namespace ctxgen::cli {

/// --tune and --tuning.
struct TuningFlags {
  std::string file;     // --tuning; "": none
  std::string seconds;  // --tune, as given
  bool tunes = false;
};

void add_tuning_flags(CLI::App& verb, TuningFlags& flags);

/// Reads the file, where it is an input. Before anything is measured.
/// In   if_needed: --if-needed, which needs to know what was found before.
/// Out  options.tuning.
/// Errors  those of the file; INVALID_ARGUMENT: options that cannot be combined.
[[nodiscard]] Status read_tuning(const TuningFlags& flags, bool if_needed, CompileOptions& options);

/// Why what was compiled to these outputs, which are current otherwise, has to be measured; "": options.tuning tells of
/// all of it.
[[nodiscard]] std::string why_untuned(std::span<const std::filesystem::path> outputs,
                                      const CompileOptions& options);

/// Measures, if --tune is given, and writes the file, if one is given, unless this is a dry run.
/// Out  options.tuning.
/// Errors  CANCELLED: interrupted, with what is known in the file.
[[nodiscard]] Result<std::optional<TuningReport>> tune(const TuningFlags& flags,
                                                       std::span<const ModelInput> models,
                                                       CompileOptions& options, Progress& progress);

}  // namespace ctxgen::cli
