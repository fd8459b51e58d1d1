#pragma once

#include <filesystem>

#include "ctxgen/base/status.h"

#include "unique_fd.h"

namespace ctxgen {

/// A file for reading and writing in the folder of `beside` that has no name, or has lost it when
/// this returns (file systems without O_TMPFILE).
/// `tmpfile`: try O_TMPFILE (tests say no).
/// Errors  IO_ERROR naming `beside`.
[[nodiscard]] Result<UniqueFd> open_unnamed_file(const std::filesystem::path& beside,
                                                 bool tmpfile = true);

}  // namespace ctxgen
