#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/weights/external_data.h"

#include "stages/provider_list.h"

namespace ctxgen {

/// A model as it was read, with the bytes of every file that was read for it.
struct ImportedModel {
  std::string name;            // base name of the input
  std::filesystem::path path;  // of its file; empty: from memory
  Model model;
  std::vector<FileRead> external_files;  // in order of first use
  /// Bins of foreign EPContext nodes, by the names that the nodes give; each once.
  std::vector<std::pair<std::string, FileRead>> foreign_bins;
  std::vector<std::string> warnings;
};

/// Reads a model, its external data and the bins that its foreign EPContext nodes name.
/// Errors  INVALID_GRAPH (no valid model, an EPContext node of ours), IO_ERROR, and the limits of
///         read_model. `spill` keeps tensors that are decoded (null: memory does).
[[nodiscard]] Result<ImportedModel> import_model(const ModelInput& input,
                                                 const CompileOptions& options,
                                                 const ProviderList& providers,
                                                 SpillFile* spill = nullptr);

/// Errors  IO_ERROR: CompileOptions::external_data_folder is not a folder; INVALID_ARGUMENT: no model has external data, so
///         that it has no effect.
[[nodiscard]] Status check_external_data_folder(std::span<const ImportedModel> models,
                                                const CompileOptions& options);

/// Every file that the models were read from, each once: the models in their order, each followed by
/// its external data and its foreign bins. Relative paths stay relative.
[[nodiscard]] std::vector<std::filesystem::path> files_read(std::span<const ImportedModel> models);

}  // namespace ctxgen
