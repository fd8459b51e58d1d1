#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/json_value.h"
#include "ctxgen/base/status.h"
#include "ctxgen/compiler/compile.h"

namespace ctxgen::cli {

/// A folder as ONNX Runtime GenAI reads it: genai_config.json, which names models, and what goes with them (tokenizer,
/// templates).
struct GenaiFolder {
  std::filesystem::path folder;
  JsonValue config;
  std::vector<std::string> models;  // relative to the folder, each once, as the config has them
};

/// The folder, if the arguments are one.
/// Errors  INVALID_ARGUMENT: a folder without a config; a config that names no model, one outside of the folder, or
///         another provider than the CPU; RESOURCE_LIMIT, IO_ERROR.
[[nodiscard]] Result<std::optional<GenaiFolder>> find_genai_folder(
    const std::vector<std::string>& arguments);

/// The paths of the models.
[[nodiscard]] std::vector<std::string> models_of(const GenaiFolder& genai);

/// Where a compiled folder goes: `output`, as a folder.
/// Errors  INVALID_ARGUMENT: no output, or the folder itself.
[[nodiscard]] Result<std::string> output_of(const GenaiFolder& genai, const std::string& output);

/// Errors  INVALID_ARGUMENT: a file of another content is where one will be written.
[[nodiscard]] Status check_companions(const GenaiFolder& genai,
                                      const std::filesystem::path& output);

/// What write_companions() reads and writes; files that a compile reads are among them.
[[nodiscard]] Result<std::vector<FileUse>> companion_uses(const GenaiFolder& genai,
                                                          const std::filesystem::path& output);

/// Writes what makes a folder of compiled models one for GenAI: copies of the files that no compile read, and
/// the config, last, with the names of the context models and the plugin as their provider. Subfolders stay away.
/// Gives the paths.
[[nodiscard]] Result<std::vector<std::filesystem::path>> write_companions(
    const GenaiFolder& genai, const std::filesystem::path& output, const CompileReport& report);

}  // namespace ctxgen::cli
