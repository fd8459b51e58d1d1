#include "flags/flag_table.h"

#include <algorithm>

#include "ctxgen/compiler/config_keys.h"
#include "ctxgen/registry/providers.h"

#include "flags/arguments.h"

namespace ctxgen::cli {
namespace {

bool is_word(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

/// What is known of an option's values beyond its type name, from the tables that read them.
void add_known_values(FlagEntry& entry) {
  const auto named = [&](std::string_view name) {
    return std::ranges::contains(entry.names, name);
  };
  if (named("--isa")) {
    for (const std::string& name : provider_names())
      if (const auto provider = make_provider(name))
        for (const auto& isa : (*provider)->instruction_sets())
          entry.choices.emplace_back(isa.name);
    entry.is_list = true;
  } else if (named("--provider")) {
    entry.choices = provider_names();
    entry.is_list = true;
  } else if (named("--config")) {
    for (const ConfigKey& key : config_keys())
      if (key.does_not_apply.empty()) entry.choices.push_back(std::string(key.name) + "=");
  } else if (named("--provider-option")) {
    for (const std::string& name : provider_names())
      if (const auto provider = make_provider(name))
        for (const std::string& option : (*provider)->option_names())
          entry.choices.push_back(name + ":" + option + "=");
  }
}

VerbEntry verb_of(const CLI::App& verb) {
  VerbEntry entry{verb.get_name(), verb.get_description(), verb.get_footer(), {}, {},
                  flag_table(verb)};
  for (FlagEntry& flag : flags_of(verb))
    (flag.names.empty() ? entry.arguments : entry.options).push_back(std::move(flag));
  return entry;
}

}  // namespace

FlagEntry flag_of(const CLI::Option& option) {
  FlagEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    entry.names.push_back((is_gcc_option("--" + name) ? "-" : "--") + name);
  if (option.get_items_expected_max() > 0) entry.value = option.get_type_name();
  if (option.get_items_expected_max() > 0 && entry.value.empty()) entry.value = "VALUE";
  entry.text = option.get_description();
  entry.required = option.get_required();
  if (!entry.value.empty() && !option.get_default_str().empty())
    entry.text += " (default: " + option.get_default_str() + ")";
  std::vector<std::string> choices = split(entry.value, '|');
  if (choices.size() > 1 && std::ranges::all_of(choices, is_word))
    entry.choices = std::move(choices);
  add_known_values(entry);
  return entry;
}

std::vector<FlagEntry> flags_of(const CLI::App& verb) {
  std::vector<FlagEntry> flags;
  for (const CLI::Option* option : verb.get_options())
    if (!option->get_group().empty())
      flags.push_back(flag_of(*option));  // the others are not for users
  return flags;
}

std::vector<VerbEntry> flag_table(const CLI::App& app) {
  std::vector<VerbEntry> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!verb->get_group().empty()) verbs.push_back(verb_of(*verb));
  return verbs;
}

bool is_gcc_option(std::string_view declared) {
  return declared == "--MD" || declared == "--MF" || declared == "--MT";
}

}  // namespace ctxgen::cli
