#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// Maps a whole regular file read-only and shared. The blob's owner is the mapping; one mapping
/// per file is shared in the process while it is held (keyed by device, inode, size, mtime).
///
/// Errors  IO_ERROR (missing, no permission, a folder, not a regular file); RESOURCE_LIMIT if there is no memory to map it.
[[nodiscard]] Result<Blob> map_file(const std::filesystem::path& path);

/// Maps the file `relative` below `folder`: refuses an absolute path, an empty one, "..", and any
/// symbolic link on the way that leaves `folder` (openat2 RESOLVE_BENEATH, stepwise where absent).
///
/// Errors  INVALID_GRAPH for a path that escapes, IO_ERROR for one that cannot be opened.
[[nodiscard]] Result<Blob> map_file_beneath(const std::filesystem::path& folder,
                                            std::string_view relative);

/// All of a stream (stdin, a pipe) in memory, at most `max_bytes` (RESOURCE_LIMIT above).
[[nodiscard]] Result<Blob> read_stream(int file_descriptor, std::uint64_t max_bytes);

/// What happens to a target that is a symbolic link.
enum class Links {
  kFollow,   // the file that it leads to is replaced, in that file's folder; the link stays
  kReplace,  // the link is replaced
};

/// Writes a file that appears complete or not at all: a temporary in the target's folder, renamed
/// by commit(). Destroyed without commit(), it removes the temporary.
///
/// The temporary's name is ".<name>.ctxgen-<pid>-<n>.tmp"; remove_stale_temporaries() knows it.
/// A character device, a pipe, and a descriptor of this process (/dev/stdout, /dev/fd/N) are never
/// replaced: write() writes to them at once, and what was written cannot be taken back. What is written to a file may be held
/// back in up to 2 MiB of memory until flush() or commit(), which then report what write() would have.
/// Errors  IO_ERROR with path and cause (no folder, read-only, disk full, a link to nothing).
class AtomicFile {
 public:
  [[nodiscard]] static Result<AtomicFile> create(const std::filesystem::path& target,
                                                 Links links = Links::kFollow);
  AtomicFile(AtomicFile&&) noexcept;
  AtomicFile& operator=(AtomicFile&&) noexcept;
  ~AtomicFile();

  [[nodiscard]] Status write(std::span<const std::byte> bytes);
  [[nodiscard]] Status write_zeros(std::uint64_t count);
  [[nodiscard]] std::uint64_t size() const;  // bytes written so far
  /// Flushes to disk and closes: whatever can fail for want of space fails here. Nothing can be
  /// written afterwards. Of several files that belong together, all are flushed before the first
  /// is committed.
  [[nodiscard]] Status flush();
  /// flush(), unless that was done, and renames over the target.
  [[nodiscard]] Status commit();
  /// commit() without waiting for the disk: for files whose readers check what they find.
  [[nodiscard]] Status commit_unflushed();

 private:
  AtomicFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An AtomicFile of `bytes`. Errors  IO_ERROR.
[[nodiscard]] Status write_file(const std::filesystem::path& path,
                                std::span<const std::byte> bytes);

/// Removes temporaries for `target` left by processes that no longer live.
void remove_stale_temporaries(const std::filesystem::path& target);

/// The same for one file that may be the temporary of any target; others are left alone.
void remove_if_stale(const std::filesystem::path& temporary);

/// Unlinks the temporaries of all live AtomicFiles: async-signal-safe, for signal handlers.
void unlink_live_temporaries() noexcept;

}  // namespace ctxgen
