#pragma once

#include <optional>

#include "regroup/kept_model.h"
#include "stages/rewrite_models.h"

namespace ctxgen {

/// CompileOptions::like: the context model that a compile's one model may differ from in weights only.
class LikeContext {
 public:
  /// Nothing where it is not asked for.
  /// Errors  as read_kept_model().
  [[nodiscard]] static Result<std::optional<LikeContext>> read(const CompileEnv& env);
  /// Before any work.
  /// Errors  NOT_SATISFIED: it was compiled with other options, for another target, by other versions.
  [[nodiscard]] Status check_request(const ModelSources& sources, const CompileEnv& env) const;
  /// Enters the file that was read in the report, too.
  /// Errors  NOT_SATISFIED naming the first thing but a weight that is another one: of the interface, of the nodes that
  ///         stay, of a program.
  [[nodiscard]] Status check_result(const PreparedModels& prepared, BuiltModels& built,
                                    const RewrittenModels& rewritten, const CompileEnv& env) const;

 private:
  KeptModel kept_;
};

}  // namespace ctxgen
