#pragma once

#include <span>
#include <string>

#include "flags/flag_table.h"

namespace ctxgen::cli {

/// Scripts that complete verbs, options of a verb, values from a fixed list, and file names.
[[nodiscard]] std::string bash_completion(std::span<const VerbEntry> verbs);
[[nodiscard]] std::string zsh_completion(std::span<const VerbEntry> verbs);
[[nodiscard]] std::string fish_completion(std::span<const VerbEntry> verbs);

}  // namespace ctxgen::cli
