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

/// Weights of weightless contexts, in files of the source below the context model's folder.
///
/// Checks  the path rules of map_file_beneath; the file's size and, as `verify` says (auto: in files
///         below 16 MiB), the hash of every weight.
class SourceWeights {
 public:
  /// `accept`: as ContextPlaces has it.
  SourceWeights(std::filesystem::path folder, VerifyBlobs verify, AcceptFile accept = {})
      : folder_(std::move(folder)), verify_(verify), accept_(std::move(accept)) {}

  /// The blobs of `program`: references are resolved, all others come from `reader`. The result refers
  /// to this object only while a program is loaded.
  [[nodiscard]] BlobSource blobs_of(const Program& program,
                                    std::shared_ptr<const ContextReader> reader);
  /// The same with `blobs` for the others.
  [[nodiscard]] BlobSource blobs_of(const Program& program, BlobSource blobs);

 private:
  [[nodiscard]] Result<Blob> open(const Blob& reference);
  [[nodiscard]] Result<Blob> file(const std::string& name, std::uint64_t size);

  std::filesystem::path folder_;  // empty: none known (a model from memory)
  VerifyBlobs verify_;
  AcceptFile accept_;
  std::map<std::string, Blob> files_;
};

}  // namespace ctxgen
