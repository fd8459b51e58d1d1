#pragma once

#include <filesystem>

#include "ctxgen/base/file.h"

#include "unique_fd.h"

namespace ctxgen {

/// What writing to a path means, after its links.
struct WriteTarget {
  enum class Kind {
    kFile,        // a regular file, or nothing yet: a temporary in its folder is renamed to `path`
    kStream,      // a device or a pipe: opened and written to
    kDescriptor,  // one of this process's own descriptors (/dev/stdout, /dev/fd/N)
  } kind = Kind::kFile;
  std::filesystem::path path;  // absolute; kFile: of the file that a link leads to
  int descriptor = -1;         // kDescriptor
};

/// Errors  IO_ERROR: what cannot be written to (a folder, a block device, a socket), a link that leads
///         to nothing, a path that cannot be followed.
[[nodiscard]] Result<WriteTarget> find_target(const std::filesystem::path& target, Links links);

/// Opens a target that is not a file. The descriptor shares its position with the one that it names.
/// Errors  IO_ERROR.
[[nodiscard]] Result<UniqueFd> open_stream(const WriteTarget& target);

}  // namespace ctxgen
