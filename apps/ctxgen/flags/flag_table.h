#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace ctxgen::cli {

/// One option or argument of a verb, as it is declared.
struct FlagEntry {
  std::vector<std::string> names;    // "-o", "--output"; a positional: empty
  std::string value;                 // "FILE"; "" if it takes none
  std::string text;                  // what it does
  std::vector<std::string> choices;  // what a value may be, where that is known; keys end with "="
  bool is_list = false;              // of choices, separated by commas
  bool required = false;
};

struct VerbEntry {
  std::string name, text, notes;  // notes: examples and exit status
  std::vector<FlagEntry> options, arguments;
  std::vector<VerbEntry> verbs;  // of cache: stats, clear, trim
};

/// Every verb of the help with its options, in the order of the help.
[[nodiscard]] std::vector<VerbEntry> flag_table(const CLI::App& app);

/// The options and arguments of one verb that the help shows.
[[nodiscard]] std::vector<FlagEntry> flags_of(const CLI::App& verb);

[[nodiscard]] FlagEntry flag_of(const CLI::Option& option);

/// gcc's spellings are declared with two dashes (build_flags.h) and typed with one.
[[nodiscard]] bool is_gcc_option(std::string_view declared);

}  // namespace ctxgen::cli
