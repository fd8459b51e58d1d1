#pragma once

#include <filesystem>
#include <memory>
#include <span>

#include "ctxgen/ctxfile/resolve.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/trust/signed_files.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

struct SessionOptions;

/// What a load compares with a signature; nothing where the options require none.
class SignedLoad {
 public:
  /// `model`: its path, for a model from memory the would-be one.
  /// Errors  INVALID_ARGUMENT (a signature without a key, no path), those of SignedFiles::open().
  [[nodiscard]] static Result<SignedLoad> start(const SessionOptions& options,
                                                const std::filesystem::path& model);

  /// The bytes that the model was read from, and its external data. Errors  NOT_SATISFIED.
  [[nodiscard]] Status check_model(const Model& read, std::span<const FileRead> files) const;

  /// For what is opened later; null where nothing is required.
  [[nodiscard]] AcceptFile accept() const;

 private:
  std::shared_ptr<const SignedFiles> files_;
  std::filesystem::path model_;
};

}  // namespace ctxgen
