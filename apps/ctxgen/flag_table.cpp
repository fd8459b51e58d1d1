#include "flag_table.h"

#include <algorithm>

#include "arguments.h"

namespace ctxgen::cli {
namespace {

bool is_word(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

FlagEntry entry_of(const CLI::Option& option) {
  FlagEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    // gcc's spellings are declared with two dashes (build_flags.h) and typed with one.
    entry.names.push_back((name == "MD" || name == "MF" || name == "MT" ? "-" : "--") + name);
  if (option.get_items_expected_max() > 0) entry.value = option.get_type_name();
  if (option.get_items_expected_max() > 0 && entry.value.empty()) entry.value = "VALUE";
  entry.text = option.get_description();
  entry.required = option.get_required();
  if (!option.get_default_str().empty())
    entry.text += " (default: " + option.get_default_str() + ")";
  std::vector<std::string> choices = split(entry.value, '|');
  if (choices.size() > 1 && std::ranges::all_of(choices, is_word)) entry.choices = std::move(choices);
  return entry;
}

}  // namespace

std::vector<VerbEntry> flag_table(const CLI::App& app) {
  std::vector<VerbEntry> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (verb->get_group().empty()) continue;
    VerbEntry entry{verb->get_name(), verb->get_description(), verb->get_footer(), {}, {}};
    for (const CLI::Option* option : verb->get_options()) {
      if (option->get_group().empty()) continue;  // not for users
      FlagEntry flag = entry_of(*option);
      (flag.names.empty() ? entry.arguments : entry.options).push_back(std::move(flag));
    }
    verbs.push_back(std::move(entry));
  }
  return verbs;
}

}  // namespace ctxgen::cli
