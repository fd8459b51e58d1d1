#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/spill_file.h"
#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/remote/remote_cache.h"

#include "stages/provider_list.h"

namespace ctxgen {

/// The machines that the options name.
/// Errors  INVALID_ARGUMENT: options that cannot be combined, or unknown instruction sets; INTERNAL: providers
///         that sort them differently.
[[nodiscard]] Result<CompileTarget> make_target(const CompileOptions& options,
                                                const ProviderList& providers);

/// Limits this process to the smallest instruction set of the target, if it names any. Has to come
/// before anything uses the providers' libraries.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status limit_process(const CompileTarget& target, const ProviderList& providers);

/// What all stages of one compile see.
struct CompileEnv {
  /// The context models: they name the bins, and their folder is that of what goes next to them.
  enum class Outputs { kFiles, kNames };  // kNames: nothing is known of where they will be

  CompileOptions options;
  std::vector<std::filesystem::path> outputs;
  Outputs kind = Outputs::kFiles;
  ProviderList providers;
  CompileTarget target;
  std::unique_ptr<CacheFolder> cache = nullptr;   // null: there is none
  std::unique_ptr<RemoteCache> remote = nullptr;  // null: there is none; refers to `cache`
  std::unique_ptr<SpillFile> spill = nullptr;     // null: everything stays in memory

  /// Errors  INVALID_ARGUMENT: inputs, outputs and options that cannot be combined (nothing is read for that).
  [[nodiscard]] static Result<CompileEnv> make(const std::vector<ModelInput>& inputs,
                                               std::vector<std::filesystem::path> outputs,
                                               CompileOptions options,
                                               Outputs kind = Outputs::kFiles);
  /// Opens the cache and limits this process: once it is known that the outputs may be written. `beside`: an
  /// output that is a file, next to which weights may wait; empty: they stay in memory.
  [[nodiscard]] Status start(const std::filesystem::path& beside);
  /// Finds what a budget asks for, once outputs have to be made.
  /// Errors  those of the search.
  [[nodiscard]] Status choose_precision();
  /// Tells the caller where the compile is.
  /// Errors  CANCELLED.
  [[nodiscard]] Status enter(CompileStage stage, double fraction) const;

  /// Nothing where it is not known.
  [[nodiscard]] std::optional<std::filesystem::path> output_folder(std::size_t model) const;
  /// Where the bin of `provider` goes.
  [[nodiscard]] std::filesystem::path bin_path(std::string_view provider) const;
  /// How context models name that bin; "" where there is none to name.
  /// Errors  INVALID_ARGUMENT: outputs of several folders, a bin that is not below theirs.
  [[nodiscard]] Result<std::string> bin_reference(const Provider& provider) const;
};

}  // namespace ctxgen
