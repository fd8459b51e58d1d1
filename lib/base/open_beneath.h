#pragma once

#include <filesystem>
#include <string_view>

#include "ctxgen/base/status.h"

#include "unique_fd.h"

namespace ctxgen {

/// How open_beneath finds the file: the kernel's openat2, or step by step where that is missing
/// (before Linux 5.6) or forbidden (seccomp filters of some containers). kAuto tries the first.
enum class BeneathMethod { kAuto, kOpenat2, kStepwise };

/// Opens the file `relative` below `folder` read-only, without leaving `folder`.
///
/// Errors  INVALID_GRAPH (absolute, empty, "..", a NUL, a link out of the folder), IO_ERROR.
[[nodiscard]] Result<UniqueFd> open_beneath(const std::filesystem::path& folder,
                                            std::string_view relative, BeneathMethod method);

}  // namespace ctxgen
