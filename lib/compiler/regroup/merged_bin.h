#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

/// One context binary of programs that were in several: programs by name, blobs by content, in the order in which a
/// compile has them.
///
/// Memory  manifests; blobs stay where they are mapped.
class MergedBin {
 public:
  /// Adds a program that its reader has; a variant, too, whose program is there already. One that is there, equal
  /// in everything, is shared. `owner`: the model that needs it, for messages.
  /// Errors  kCorruptContext: a damaged blob; kVersionMismatch: another producer, target or form of a blob than of
  ///         what was added first; INVALID_GRAPH: two different programs of one name.
  [[nodiscard]] Status add(std::shared_ptr<const ContextReader> reader, std::size_t program,
                           const std::string& owner);
  [[nodiscard]] bool empty() const { return content_.programs.empty(); }
  /// The instruction sets that programs are for, the smallest first; one at most: there are no variants.
  [[nodiscard]] std::vector<std::string> isas() const;
  [[nodiscard]] std::size_t programs_shared() const { return shared_; }
  [[nodiscard]] std::uint64_t bytes_added() const { return bytes_added_; }
  [[nodiscard]] std::uint64_t bytes_stored() const;
  /// What is written; `loader` knows what the programs need.
  [[nodiscard]] ContextContent finish(const ProgramLoader& loader);
  /// The readers that it refers to; they live as long as it does.
  using Readers = std::vector<std::shared_ptr<const ContextReader>>;

 private:
  [[nodiscard]] Status check_alike(const ContextInfo& info, const std::string& owner);
  [[nodiscard]] Result<BlobIndex> take(const ContextReader& reader, BlobIndex index);
  [[nodiscard]] Result<BlobIndex> add_blob(const ContextReader& reader, BlobIndex index);

  ContextContent content_;
  std::string first_owner_;
  std::vector<BlobEncoding> encodings_;  // of blobs
  std::map<std::pair<const ContextReader*, BlobIndex>, BlobIndex> taken_;
  std::map<Hash128, std::vector<BlobIndex>> by_hash_;
  std::unordered_map<std::string, std::size_t> names_;
  Readers readers_;
  std::size_t shared_ = 0;
  std::uint64_t bytes_added_ = 0;
};

}  // namespace ctxgen
