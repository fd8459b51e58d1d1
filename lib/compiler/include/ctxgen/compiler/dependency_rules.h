#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "ctxgen/base/status.h"

namespace ctxgen {

/// Make rules as a compiler writes them for Make and Ninja: `targets` depend on `prerequisites`; each
/// of `optional` is a prerequisite too and gets an empty rule, so that a build in which it is gone
/// does not stop but runs the compile again.
///
/// Blanks, "$", "#", ":" and backslashes are escaped in the way that GNU Make and Ninja agree on.
/// Errors  INVALID_ARGUMENT naming a path that no spelling brings through both: control characters,
///         any of  ; | & * ? ' " < > ` ( ) [ ]  , "%" and "=" in a target, and the like. Written
///         as it is, such a name could run a command of its own choice.
[[nodiscard]] Result<std::string> dependency_rules(
    std::span<const std::filesystem::path> targets,
    std::span<const std::filesystem::path> prerequisites,
    std::span<const std::filesystem::path> optional);

}  // namespace ctxgen
