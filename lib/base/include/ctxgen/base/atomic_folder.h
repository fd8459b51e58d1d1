#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// A folder with files that appears complete or not at all: it is filled under another name next to its target,
/// ".<name>.ctxgen-<pid>-<n>.tmp", and renamed by commit(). Destroyed without commit(), it goes with all that is in
/// it; unlink_live_temporaries() removes it, too, and create() removes what processes that no longer live left.
///
/// Paths are relative to the folder and stay in it; their folders are made by make_folder().
/// Errors  IO_ERROR with path and cause.
class AtomicFolder {
 public:
  /// `target` is not there, or an empty folder, or a link to one; its parent is there.
  /// Errors  INVALID_ARGUMENT: it is there and not an empty folder.
  [[nodiscard]] static Result<AtomicFolder> create(const std::filesystem::path& target);
  /// A folder for temporary files ($TMPDIR), which this user alone can read; never committed.
  [[nodiscard]] static Result<AtomicFolder> scratch();
  AtomicFolder(AtomicFolder&&) noexcept;
  AtomicFolder& operator=(AtomicFolder&&) noexcept;
  ~AtomicFolder();

  /// Where it is before commit(), absolute.
  [[nodiscard]] std::filesystem::path path() const;
  [[nodiscard]] Status make_folder(const std::filesystem::path& relative);
  using Sink = std::function<Status(std::span<const std::byte>)>;
  /// A new file of what `write` gives the sink, flushed to disk (but in a scratch folder).
  [[nodiscard]] Status write_file(const std::filesystem::path& relative,
                                  const std::function<Status(const Sink&)>& write);
  /// Another name for a file whose name follows from its content; one that has it already is replaced.
  [[nodiscard]] Status rename_file(const std::filesystem::path& from,
                                   const std::filesystem::path& to);
  /// Renames the folder to its target.
  [[nodiscard]] Status commit();

 private:
  AtomicFolder();
  static Result<AtomicFolder> make(const std::filesystem::path& target,
                                   const std::filesystem::path& destination, mode_t mode);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ctxgen
