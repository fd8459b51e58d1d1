#pragma once

#include <memory>
#include <vector>

#include "stages/import_models.h"
#include "stages/prepare_model.h"

namespace ctxgen {

struct PreparedModels {
  std::vector<PreparedModel> models;
  ModelSources sources;
  std::vector<std::unique_ptr<VariantProcess>>
      variants;  // of the target's instruction sets but the first
};

/// Checks, infers, folds and partitions all models. Processes for further instruction sets are started before:
/// each may refuse its own.
[[nodiscard]] Result<PreparedModels> prepare_models(ImportedModels imported, const CompileEnv& env);

}  // namespace ctxgen
