#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// A file that a command reads or writes. `role` says what it is to the command, as messages name it:
/// `the model`, `--report`.
struct FileUse {
  enum class How { kRead, kWritten, kFolder /* files are written into it */ } how = How::kRead;
  std::filesystem::path path;
  std::string role;
};

/// Whether a command may write all that it wants to: no file that it writes is one that it reads, is
/// written a second time, or is a folder of another one. To be asked before the first of them is opened
/// for writing.
///
/// Files are one if their real paths are (links in it are followed, also where the file is not there
/// yet), or if they are one inode (hard links). Character devices can be written to any number of times.
/// Errors  INVALID_ARGUMENT naming both roles.
[[nodiscard]] Status check_file_uses(const std::vector<FileUse>& uses);

/// Whether a file could be written as AtomicFile does: its folder is there and takes files, and what is
/// there under its name can be replaced or written to. Nothing is created.
/// Errors  IO_ERROR.
[[nodiscard]] Status check_writable(const std::filesystem::path& target);

/// Whether writing to `target` goes to a device, a pipe or a descriptor (/dev/stdout), not to a file
/// with a folder of its own.
[[nodiscard]] bool is_stream(const std::filesystem::path& target);
/// Whether it goes to this process's standard output: /dev/stdout, /dev/fd/1, a link to one of them.
[[nodiscard]] bool is_standard_output(const std::filesystem::path& target);

}  // namespace ctxgen
