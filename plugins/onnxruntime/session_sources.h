#pragma once

#include <filesystem>
#include <optional>

#include "ctxgen/compiler/source_index.h"

#include "ep_options.h"

namespace ctxgen::plugin {

/// The files that a session's model was read from, for context models that leave weights there.
class SessionSources {
 public:
  /// Reads the model again, from `path`, and gives `model` its initializers where they are the same: those of the files.
  /// `folder`: of the context model, if it is known.
  ///
  /// Lifetime  initializers of `model` may refer to this object.
  /// Errors    INVALID_ARGUMENT: a model from memory, files outside `folder`; those of read_model().
  [[nodiscard]] static Result<SessionSources> find(
      Model& model, const std::filesystem::path& path,
      const std::optional<std::filesystem::path>& folder, const EpOptions& options);

  [[nodiscard]] const SourceIndex& index() const { return index_; }

 private:
  Model source_;
  SourceIndex index_;
};

}  // namespace ctxgen::plugin
