#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/ctxfile/resolve.h"
#include "ctxgen/ctxfile/workspace.h"
#include "ctxgen/onnx_lite/write_model.h"
#include "ctxgen/weights/external_data.h"
#include "ctxgen/weights/external_file.h"

#include "stages/provider_list.h"

namespace ctxgen {

/// An EPContext node of ours in a model that is written again, and the program that it stands for.
struct KeptContext {
  EpContextNode* node = nullptr;  // of KeptModel::rewrite
  std::size_t provider = 0;
  std::uint64_t ordinal =
      0;              // of its name: the order in which the programs of the model are in a bin
  std::string where;  // for messages
  std::shared_ptr<const ContextReader> reader;
  std::size_t program = 0;  // that under the partition's name, whichever this machine would run
};

/// A context model of which everything stays but where its programs, and initializers outside of it, are.
struct KeptModel {
  std::filesystem::path path;
  std::string name;  // of the file, quoted, for messages
  std::unique_ptr<Model> model;
  ModelRewrite rewrite;
  std::vector<KeptContext> contexts;  // by ordinal
  std::string key_parts;              // metadata kCompileKeyPartsMetadata
  std::string external_entry;         // metadata kExternalFileKey, empty: it has no such file
  std::vector<FileRead> external_files;
  std::vector<std::pair<std::string, FileRead>> foreign_bins;  // by name in the model
  std::vector<std::filesystem::path> bins;                     // of its own, in files
};

/// Reads a context model and opens its binaries; `workspace` shares those of a group among its models.
/// Errors  as regroup().
[[nodiscard]] Result<KeptModel> read_kept_model(const std::filesystem::path& path,
                                                const ProviderList& providers,
                                                Workspace& workspace);

/// Puts the initializers that are outside of the model into `file`, which models call `location`.
/// Errors  UNSUPPORTED: one is in a file of its source; RESOURCE_LIMIT.
[[nodiscard]] Status keep_initializers(KeptModel& kept, const std::string& location,
                                       ExternalFileBuilder& file);

}  // namespace ctxgen
