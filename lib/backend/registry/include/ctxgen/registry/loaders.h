#pragma once

#include <span>

#include "ctxgen/ctxfile/executable.h"

namespace ctxgen {

/// The load sides of all providers that write programs. Links no compiler.
[[nodiscard]] std::span<const ProgramLoader* const> default_loaders();

/// The loader for an EPContext `source`, or nullptr.
[[nodiscard]] const ProgramLoader* find_loader(std::span<const ProgramLoader* const> loaders,
                                               std::string_view source);

}  // namespace ctxgen
