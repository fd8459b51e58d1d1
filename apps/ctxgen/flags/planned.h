#pragma once

#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// Refuses verbs and options that are planned and not built yet, each by name: none is ever taken
/// and ignored.
/// Errors  INVALID_ARGUMENT.
[[nodiscard]] Status refuse_planned(std::span<const char* const> arguments);

/// "Not built yet (refused by name): --a, --b", for the help of `verb`; empty if there is nothing.
[[nodiscard]] std::string planned_options_text(std::string_view verb);

}  // namespace ctxgen::cli
