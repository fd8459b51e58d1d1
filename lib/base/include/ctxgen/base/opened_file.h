#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

struct stat;

namespace ctxgen {

class UniqueFd;

/// What tells two files, or two states of one file, apart without reading them. Times in nanoseconds since 1970.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;  // cannot be set by programs
  [[nodiscard]] auto operator<=>(const FileIdentity&) const = default;

  /// Whether every change after `now_ns` shows in the times. A file that was changed just before may change again within the
  /// same tick of its file system's clock (two seconds on FAT).
  [[nodiscard]] bool is_settled(std::int64_t now_ns) const;
};

[[nodiscard]] FileIdentity identity_of(const struct ::stat& status);

/// Nanoseconds since 1970 by the clock that file systems use.
[[nodiscard]] std::int64_t file_clock_ns();

/// A regular file that is open and mapped: identity and bytes are of the same file, whatever its path leads to later.
class OpenedFile {
 public:
  /// Errors  as map_file().
  [[nodiscard]] static Result<OpenedFile> open(const std::filesystem::path& path);
  /// Errors  as map_file_beneath().
  [[nodiscard]] static Result<OpenedFile> open_beneath(const std::filesystem::path& folder,
                                                       std::string_view relative);

  [[nodiscard]] const Blob& content() const { return content_; }
  /// When it was opened.
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }
  /// Whether it still is the identity of the file.
  [[nodiscard]] bool is_unchanged() const;
  /// Takes the pages that were touched out of the process's resident memory; they come back from the system's cache.
  void release_pages() const;

 private:
  [[nodiscard]] static Result<OpenedFile> of(UniqueFd fd, std::string_view name);
  OpenedFile() = default;
  std::shared_ptr<const UniqueFd> fd_;
  FileIdentity identity_;
  Blob content_;
};

}  // namespace ctxgen
