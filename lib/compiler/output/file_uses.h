#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "ctxgen/compiler/compile.h"

#include "stages/import_model.h"
#include "stages/provider_list.h"

namespace ctxgen {

/// What a compile writes.
struct PlannedOutputs {
  /// One per input. They name the bins, and their folder is that of what goes next to them.
  const std::vector<std::filesystem::path>& models;
  bool models_are_files = true;  // else they go to memory or to functions
  bool others_are_files = true;  // bins and what else is next to the models; else they go to memory
};

/// Every path that a compile reads and writes, its caller's too: models, external data, context binaries
/// of its own and foreign ones, external initializers, CompileOptions::other_files, the cache. `imported`
/// is empty before the models are read; what they name is known after that only.
[[nodiscard]] std::vector<FileUse> file_uses(const std::vector<ModelInput>& inputs,
                                             const PlannedOutputs& outputs,
                                             const ProviderList& providers,
                                             std::span<const ImportedModel> imported,
                                             const CompileOptions& options);

/// Whether all of these may be written: to be asked before import and again after it, in any case before
/// a file is opened for writing.
/// Errors  INVALID_ARGUMENT naming two roles (check_file_uses); a file next to the models that no load
///         would find, because a link on the way to it leaves their folder.
[[nodiscard]] Status check_files(const std::vector<ModelInput>& inputs,
                                 const PlannedOutputs& outputs, const ProviderList& providers,
                                 std::span<const ImportedModel> imported,
                                 const CompileOptions& options);

/// Whether a load finds a file next to the models in `folder`: without following a link out of it.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status check_found_from(const std::filesystem::path& folder, const FileUse& use);

/// For no_clobber: whether none of the outputs exists, what goes next to the models among them. Asked before a compile, so
/// a bin counts that it will not write, because its provider takes no node.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status refuse_existing_outputs(const PlannedOutputs& outputs,
                                             const ProviderList& providers,
                                             std::span<const ImportedModel> imported,
                                             const CompileOptions& options);

/// Whether every folder takes the files. One that is still to be made (make_folder) was looked at when
/// it was planned; outputs that may be left alone (keep_unchanged) are not asked for.
/// Errors  IO_ERROR.
[[nodiscard]] Status check_all_writable(const std::vector<FileUse>& uses,
                                        const std::filesystem::path& new_folder);

}  // namespace ctxgen
