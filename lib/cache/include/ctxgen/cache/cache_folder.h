#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/file.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// What an entry holds; each kind has a folder of its own.
enum class CacheKind : std::uint8_t {
  kBlob,     // bytes of a weight, by their own hash
  kPacked,   // which blob a weight becomes in a layout
  kProgram,  // what a provider made of a partition
  kOutput,   // the files of a whole compile
  kTuning,   // which packing was the fastest for a shape of constants on a machine
  kHashes,   // of parts of a file, by what tells its state (FileHashes)
};
inline constexpr std::size_t kCacheKinds = 6;
/// "blob", "packed", ...
[[nodiscard]] std::string_view name_of(CacheKind kind);

/// An entry that is written in parts. It is there once finish() was called; destroyed before, it leaves nothing.
class CacheEntryWriter {
 public:
  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  /// Of the bytes so far.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] Hash128 hash() const { return hasher_.finish(); }
  [[nodiscard]] Status finish();

 private:
  friend class CacheFolder;
  CacheEntryWriter(AtomicFile file, CacheKind kind, Hash128 key)
      : file_(std::move(file)), kind_(kind), key_(key) {}
  AtomicFile file_;
  CacheKind kind_;
  Hash128 key_;
  Hasher hasher_;
  std::uint64_t size_ = 0;
};

/// A folder of results of earlier compiles, each found by a hash of everything that it depends on.
///
/// Damage   an entry carries a checksum; one that does not fit it, is cut short, or is another's is
///          not found, and replaced by the next add().
/// Sharing  processes read without locks while others write: entries appear by rename, whole, and
///          one that is removed stays mapped for who has it.
/// Failure  a folder that cannot be written serves as it is; one that cannot be read is empty. The
///          first failure to write is logged as a warning, and nothing more is written then.
/// Threads  every member may be called from several threads.
class CacheFolder {
 public:
  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{5} << 30;

  /// Makes the folder where it is missing. The oldest entries, by their last use, go when more than
  /// `max_bytes` are there at the end.
  /// Errors  IO_ERROR if `path` is something else than a folder.
  [[nodiscard]] static Result<std::unique_ptr<CacheFolder>> open(const std::filesystem::path& path,
                                                                 std::uint64_t max_bytes);
  /// Trims, if something was written.
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// The verified bytes, mapped; they count as used now.
  [[nodiscard]] std::optional<Blob> find(CacheKind kind, Hash128 key);
  /// The same, but an entry whose file is as it was when it was compared with its checksum is not read to compare it again.
  /// So long as that is so, its time of last use is that of its hash (CacheKind::kHashes).
  [[nodiscard]] std::optional<Blob> find_unchanged(CacheKind kind, Hash128 key);
  /// The entry that this process has just added: its checksum is taken at its word, here and by find_unchanged().
  [[nodiscard]] std::optional<Blob> find_added(CacheKind kind, Hash128 key);
  /// Whether there is such an entry, whole or not; it counts as used now.
  [[nodiscard]] bool holds(CacheKind kind, Hash128 key) const;
  /// Whether the entry was written. `bytes` above max_bytes are not.
  bool add(CacheKind kind, Hash128 key, std::span<const std::byte> bytes);
  /// The same for `bytes` that `fill` writes in parts.
  bool add(CacheKind kind, Hash128 key, std::uint64_t bytes,
           const std::function<Status(CacheEntryWriter&)>& fill);
  /// The same for an entry that arrives in parts. The caller limits its size.
  /// Errors  IO_ERROR.
  [[nodiscard]] Result<CacheEntryWriter> begin(CacheKind kind, Hash128 key);
  /// The bytes as they are in the cache now, or `made` itself.
  [[nodiscard]] Blob add_and_map(CacheKind kind, Hash128 key, Blob made);

  struct Usage {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;  // of the files
  };
  struct Contents {
    Usage kinds[kCacheKinds];
    [[nodiscard]] Usage all() const;
  };
  [[nodiscard]] Contents contents() const;
  /// Removes the least recently used entries until at most `max_bytes` are left, and what
  /// killed processes left. Returns what was removed.
  /// Errors  IO_ERROR if an entry cannot be removed.
  [[nodiscard]] Result<Usage> trim(std::uint64_t max_bytes);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t max_bytes() const { return max_bytes_; }

 private:
  CacheFolder(std::filesystem::path path, std::uint64_t max_bytes)
      : path_(std::move(path)), max_bytes_(max_bytes) {}
  [[nodiscard]] std::filesystem::path path_of(CacheKind kind, Hash128 key) const;
  [[nodiscard]] Result<CacheEntryWriter> create(CacheKind kind, Hash128 key) const;

  std::filesystem::path path_;
  std::uint64_t max_bytes_;
  std::atomic<bool> writable_ = true;
  std::atomic<bool> written_ = false;
};

/// Where the compile cache is by default: CTXGEN_CACHE_DIR, or nothing.
[[nodiscard]] std::filesystem::path cache_folder_from_environment();

}  // namespace ctxgen
