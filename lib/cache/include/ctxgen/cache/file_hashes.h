#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/opened_file.h"
#include "ctxgen/cache/cache_folder.h"

namespace ctxgen {

/// Bytes [offset, offset + size) of a file.
struct FilePart {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  [[nodiscard]] auto operator<=>(const FilePart&) const = default;
};

/// Hashes of parts of files that were read before, by this process or another: one entry of the cache for each state of a file.
/// What is stored there and does not fit is not known. They hold until the system starts again: a power cut may leave times of
/// a file without its content. Where it does not say which start this is (/proc is not there), none is kept.
class FileHashes {
 public:
  /// `cache` outlives it.
  explicit FileHashes(CacheFolder& cache) : cache_(cache) {}

  [[nodiscard]] std::optional<Hash128> find(const FileIdentity& file, FilePart part);
  /// Requires  the file had that identity before and after the part was read, and it was settled before; or this process has
  /// just written the file.
  void add(const FileIdentity& file, FilePart part, Hash128 hash);
  /// Stores what was added.
  void store();

  /// The key of the entry of a file.
  [[nodiscard]] static Hash128 key_of(const FileIdentity& file);

 private:
  struct Known {
    std::map<FilePart, Hash128> parts;
    bool is_changed = false;
  };
  Known& known(const FileIdentity& file);

  CacheFolder& cache_;
  std::map<FileIdentity, Known> files_;
};

}  // namespace ctxgen
