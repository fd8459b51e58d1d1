#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli.h"

namespace ctxgen::cli {

/// The words of the command line, the program's name left out, once they are known to be commands, options and values
/// of ours: for CLI11, which then finds wrong values only.
///
/// `help VERB` becomes `VERB --help`, `--option=` becomes the option and an empty value.
/// Errors  INVALID_ARGUMENT: no command or an unknown one, an unknown option, one without its value or
///         given twice, an argument too many or too few; says what is close, and where help is.
[[nodiscard]] Result<std::vector<std::string>> check_words(const Cli& cli,
                                                           std::vector<std::string> words);

/// Whether the words ask for JSON: then errors are JSON, too, those in the words included.
[[nodiscard]] bool asks_for_json(const Cli& cli, const std::vector<std::string>& words);

/// `; did you mean "--threads"?`, or which other command has the option; "" if neither.
[[nodiscard]] std::string option_hint(const CLI::App& verb, std::string_view name);

/// "ctxgen compile", for "ctxgen compile --help".
[[nodiscard]] std::string command_of(const CLI::App& verb);

}  // namespace ctxgen::cli
