#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/trust/sha256.h"

#include "cache/compile_key.h"
#include "stages/compile_env.h"
#include "stages/import_model.h"

namespace ctxgen {

/// What the models of a compile were read from, for all later stages.
struct ModelSources {
  std::vector<std::vector<std::pair<std::string, Blob>>> external_data;  // of the inputs, in memory
  std::vector<std::string> bin_references;  // by provider; "" where there is no bin to name
  SourceIndex index;                        // empty unless weightless
  /// Weightless, by model: from the context model's folder; "" for one from memory.
  std::vector<std::string> source_references;
  std::vector<ModelKey> keys;  // by model
  Hash128 key;                 // of the compile
  Sha256Digest strong_key;     // the same; with a remote cache only
  std::vector<std::filesystem::path> files_read;
};

struct ImportedModels {
  std::vector<ImportedModel> models;
  ModelSources sources;
  /// The bytes of every file that was read.
  [[nodiscard]] std::vector<Blob> bytes() const;
};

/// Reads the inputs. After that everything that decides the outputs is known: the key is over it.
/// Errors  as import_model() and SourceIndex::add().
[[nodiscard]] Result<ImportedModels> import_models(const std::vector<ModelInput>& inputs,
                                                   const CompileEnv& env);

}  // namespace ctxgen
