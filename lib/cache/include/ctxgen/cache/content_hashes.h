#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/opened_file.h"
#include "ctxgen/cache/file_hashes.h"

namespace ctxgen {

/// Hashes of what is in memory. Parts of files that are as they were when an earlier process hashed them are not read:
/// docs/security.md, "The compile cache".
class ContentHashes {
 public:
  /// `cache`: where hashes are kept; null: everything is read. `files`: whose parts are asked for. Both outlive it.
  ContentHashes(CacheFolder* cache, std::span<const OpenedFile> files);

  /// hash_bytes(content), or what it was before.
  [[nodiscard]] Hash128 of(std::span<const std::byte> content);
  /// Whether of() gave a hash without reading.
  [[nodiscard]] bool has_remembered() const { return has_remembered_; }
  /// Keeps what was read of files that have not changed meanwhile.
  void store();

 private:
  struct Read {
    const OpenedFile* file = nullptr;
    FilePart part;
    Hash128 hash;
  };
  /// The file that a content is part of, if it counts.
  [[nodiscard]] const OpenedFile* file_of(std::span<const std::byte> content) const;

  std::optional<FileHashes> hashes_;
  std::map<const std::byte*, const OpenedFile*, std::less<>> files_;  // by the first byte
  std::vector<Read> read_;
  bool has_remembered_ = false;
};

}  // namespace ctxgen
