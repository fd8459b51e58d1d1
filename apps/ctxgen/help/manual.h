#pragma once

#include <span>
#include <string>

#include <CLI/CLI.hpp>

#include "flags/flag_table.h"

namespace ctxgen::cli {

/// Manual pages in the macros of man(7).
[[nodiscard]] std::string manual_of_program(const CLI::App& app, std::span<const VerbEntry> verbs);
[[nodiscard]] std::string manual_of_verb(const VerbEntry& verb);

}  // namespace ctxgen::cli
