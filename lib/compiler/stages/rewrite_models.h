#pragma once

#include <memory>
#include <vector>

#include "ctxgen/onnx_lite/write_model.h"
#include "ctxgen/weights/external_file.h"

#include "stages/build_models.h"

namespace ctxgen {

/// What of the models is written, and how.
struct RewrittenModels {
  std::vector<ModelRewrite> rewrites;
  /// Empty where no initializer was moved.
  std::unique_ptr<ExternalFileBuilder> external = std::make_unique<ExternalFileBuilder>();
};

/// Puts EPContext nodes in the place of partitions, initializers in theirs, and enters metadata; sizes go to the
/// report of `built`.
/// Lifetime  `prepared` and `built` must outlive the result.
[[nodiscard]] Result<RewrittenModels> rewrite_models(const PreparedModels& prepared,
                                                     BuiltModels& built, const CompileEnv& env);

}  // namespace ctxgen
