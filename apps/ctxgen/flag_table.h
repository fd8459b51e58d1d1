#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ctxgen::cli {

/// One option or argument of a verb, as it is declared.
struct FlagEntry {
  std::vector<std::string> names;  // "-o", "--output"; a positional: empty
  std::string value;               // "FILE"; "" if it takes none
  std::string text;                // what it does
  std::vector<std::string> choices;  // of values like "none|basic|all"
  bool required = false;
};

struct VerbEntry {
  std::string name, text, notes;  // notes: examples and exit status
  std::vector<FlagEntry> options, arguments;
};

/// Every verb of the help with its options, in the order of the help.
[[nodiscard]] std::vector<VerbEntry> flag_table(const CLI::App& app);

}  // namespace ctxgen::cli
