#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "ctxgen/base/status.h"

namespace ctxgen::cli {

/// A word of an options file and the like.
struct Word {
  std::string text;
  std::size_t line = 1;  // where it begins
};

/// Cuts a file into words: blanks part them; '...' and "..." hold them together; a backslash takes the
/// next character as it is, but not inside of '...'; "#" where a word would begin starts a comment.
/// Errors  INVALID_ARGUMENT naming `name` and line (an open quote, a zero byte).
[[nodiscard]] Result<std::vector<Word>> split_words(std::string_view text, const std::string& name);

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
