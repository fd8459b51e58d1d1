#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "ctxgen/base/hash.h"
#include "ctxgen/compiler/compile.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/trust/sha256.h"

#include "stages/import_model.h"
#include "stages/provider_list.h"

namespace ctxgen {

/// Hashes of files: one that several models need is read once.
class FileHashes {
 public:
  /// `strong`, where given, receives all that the keys are made of: the key of the same where others can write.
  explicit FileHashes(Sha256* strong = nullptr) : strong_(strong) {}
  [[nodiscard]] Hash128 of(const Blob& file);
  [[nodiscard]] Sha256* strong() const { return strong_; }
  [[nodiscard]] Sha256Digest strong_of(const Blob& file);

 private:
  Sha256* strong_;
  std::map<std::pair<const std::byte*, std::size_t>, Sha256Digest> strong_known_;
  std::map<std::pair<const std::byte*, std::size_t>, Hash128> known_;  // by place in memory
};

/// The key of one model of a compile: content of the model and of what was read for it, options,
/// versions, and the target (each provider's fingerprint). No paths, no number of jobs, no other model.
///
/// `source_files`: files of the source that the context model needs, as it names them.
/// Cost: one pass over the model's files; nothing is inferred or compiled.
[[nodiscard]] ModelKey key_of(const ImportedModel& model, const ProviderList& providers,
                              const CompileTarget& target,
                              std::span<const std::string> source_files,
                              const CompileOptions& options, FileHashes& files);

/// The key of a compile: one hash over everything that decides the bytes of its outputs and whether it
/// succeeds. Equal keys mean equal outputs: the keys of all models, in order, and into which files they go.
///
/// `bin_references`: how the context models name the bin, per provider, empty where there is none.
[[nodiscard]] Hash128 key_of_group(std::span<const ModelKey> models,
                                   std::span<const std::string> bin_references,
                                   const CompileOptions& options, FileHashes& files);

}  // namespace ctxgen
