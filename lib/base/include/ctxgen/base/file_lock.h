#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// A lock that its last owner ends, as the end of the process does; null: none.
using FileLock = std::shared_ptr<const void>;

/// How long a lock that another has is waited for.
struct LockWait {
  std::optional<std::chrono::milliseconds> most = std::nullopt;  // nothing: until it is free
  std::function<bool()> cancelled = {};
};

/// Locks a file or a folder for one owner among all threads and processes that ask for it this way. Locks of files are
/// for those that replace them: what is locked is the file that the path names then. Nothing is written.
///
/// Out     null: the file system has no locks for it.
/// Errors  IO_ERROR: it cannot be opened for reading, another has it for too long; CANCELLED.
[[nodiscard]] Result<FileLock> lock_path(const std::filesystem::path& path, const LockWait& wait);

}  // namespace ctxgen
