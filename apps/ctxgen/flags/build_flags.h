#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/compiler/compile.h"

#include "compile/compile_outputs.h"

namespace ctxgen::cli {

/// Flags of `compile` that make it a step of a build.
struct BuildFlags {
  bool if_needed = false;
  std::string depfile;                   // --depfile FILE
  bool gcc_depfile = false;              // -MD
  std::string gcc_file;                  // -MF FILE
  std::vector<std::string> gcc_targets;  // -MT TARGET
};

/// Those that are options of the compile API are stored in `options`.
void add_build_flags(CLI::App& verb, BuildFlags& flags, CompileOptions& options);

/// -MD, -MF and -MT, as gcc spells them, in the form that the declarations above know.
[[nodiscard]] std::vector<std::string> with_long_names(std::span<const char* const> arguments);

/// Errors  INVALID_ARGUMENT naming two that cannot be combined.
[[nodiscard]] Status check_build_flags(const BuildFlags& flags, const CompileOptions& options,
                                       const OutputPlan& plan, bool verify);

/// The dependency file's path; "" if none is asked for. Without a name: the first output with the ending
/// .d, as gcc does.
[[nodiscard]] std::filesystem::path depfile_of(const BuildFlags& flags, const OutputPlan& plan);

/// A dependency file to be written when everything else is done.
struct Depfile {
  std::filesystem::path path;  // empty: none is asked for
  std::string text;
};

/// What the flags ask for: the models, bins and external initializers (or what -MT names) depend on
/// every file that was read.
/// Errors  INVALID_ARGUMENT: a name that no Makefile can hold.
[[nodiscard]] Result<Depfile> make_depfile(const BuildFlags& flags, const OutputPlan& plan,
                                           const CompileReport& report);
/// Errors  IO_ERROR.
[[nodiscard]] Status write_depfile(const Depfile& depfile);

}  // namespace ctxgen::cli
