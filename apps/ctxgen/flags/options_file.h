#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// --options FILE: more options of the verb, as docs/cli.md says. `file` keeps the name.
void add_options_file(CLI::App& verb, std::string& file);

/// Reads the file that --options of a verb names, after the command line was read: an option that
/// is there too is ignored, with all its values.
/// Errors  IO_ERROR; INVALID_ARGUMENT naming file and line (no option of the verb, a value missing or
///         wrong, an open quote, an argument that is not an option); RESOURCE_LIMIT.
[[nodiscard]] Status apply_options_file(CLI::App& verb);
/// The same for the content of such a file; `name` appears in messages.
[[nodiscard]] Status apply_options_text(CLI::App& verb, std::string_view text,
                                        const std::string& name);

}  // namespace ctxgen::cli
