#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/ctxfile/resolve.h"

namespace ctxgen {

/// Where an application has the source of a weightless model, if it is not where the compile saw it
/// (ONNX Runtime's ep.context_source_model_path). Its external data is looked for from its folder.
struct SourceModel {
  std::filesystem::path path;  // empty: where the compile saw it
  Blob bytes;                  // instead of the file, but not of its external data
  /// The attribute onnx_model_filename: what references call the source, from the context model's folder.
  std::string name = {};
};

/// Weights of weightless contexts, in files of the source: below the context model's folder, or where
/// `source` says.
///
/// Checks  the path rules of map_file_beneath (not for the path that the application gives); the file's
///         size and, as `verify` says (auto: in files below 16 MiB), the hash of every weight.
class SourceWeights {
 public:
  /// `accept`: as ContextPlaces has it; it sees the names that references have.
  SourceWeights(std::filesystem::path folder, VerifyBlobs verify, AcceptFile accept = {},
                SourceModel source = {})
      : folder_(std::move(folder)),
        verify_(verify),
        accept_(std::move(accept)),
        source_(std::move(source)) {}

  /// The blobs of `program`: references are resolved, all others come from `reader`. The result refers
  /// to this object only while a program is loaded.
  [[nodiscard]] BlobSource blobs_of(const Program& program,
                                    std::shared_ptr<const ContextReader> reader);
  /// The same with `blobs` for the others.
  [[nodiscard]] BlobSource blobs_of(const Program& program, BlobSource blobs);

 private:
  [[nodiscard]] Result<Blob> open(const Blob& reference);
  [[nodiscard]] Result<Blob> file(const std::string& name, std::uint64_t size);
  [[nodiscard]] Result<Blob> map(const std::string& name) const;

  std::filesystem::path folder_;  // empty: none known (a model from memory)
  VerifyBlobs verify_;
  AcceptFile accept_;
  SourceModel source_;
  std::map<std::string, Blob> files_;
};

}  // namespace ctxgen
