#include "completions.h"

#include <format>
#include <string_view>

namespace ctxgen::cli {
namespace {

std::string joined(std::span<const std::string> words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

/// In single quotes of a POSIX shell.
std::string shell_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// What ends a part of a spec of zsh's _arguments gets a backslash.
std::string with_backslashes(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view("[]:\\").contains(c)) result += '\\';
    result += c;
  }
  return result;
}

/// In fish only the backslash and the quote are special inside of quotes.
std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string verb_names(std::span<const VerbEntry> verbs) {
  std::string names;
  for (const VerbEntry& verb : verbs) names += (names.empty() ? "" : " ") + verb.name;
  return names;
}

std::string option_names(const VerbEntry& verb) {
  std::string names;
  for (const FlagEntry& option : verb.options)
    names += (names.empty() ? "" : " ") + joined(option.names, " ");
  return names;
}

constexpr std::string_view kTop = "--help --version";

/// One spec of _arguments per spelling.
std::string zsh_option(const FlagEntry& option) {
  std::string text;
  for (const std::string& name : option.names) {
    std::string spec = "*" + name;
    if (!option.value.empty() && name.starts_with("--")) spec += "=";
    spec += "[" + with_backslashes(option.text) + "]";
    if (!option.value.empty())
      spec += ":" + with_backslashes(option.value) + ":" +
              (option.choices.empty() ? "_files" : "(" + joined(option.choices, " ") + ")");
    text += "        " + shell_quoted(spec) + " \\\n";
  }
  return text;
}

}  // namespace

std::string bash_completion(std::span<const VerbEntry> verbs) {
  std::string text = std::format(
      "# Completion of ctxgen for bash, made from its declarations.\n"
      "_ctxgen() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{} {}' -- \"$cur\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n",
      verb_names(verbs), kTop);
  for (const VerbEntry& verb : verbs) {
    std::string values, choices;
    for (const FlagEntry& option : verb.options) {
      if (option.value.empty()) continue;
      if (option.choices.empty())
        values += (values.empty() ? "" : "|") + joined(option.names, "|");
      else
        choices += std::format("        {}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return ;;\n",
                               joined(option.names, "|"), joined(option.choices, " "));
    }
    text += std::format("    {})\n      case $prev in\n", verb.name);
    if (!values.empty()) text += std::format("        {}) return ;;  # a file, or what the user knows\n", values);
    text += choices + std::format("      esac\n      words='{}' ;;\n", option_names(verb));
  }
  return text +
         "  esac\n"
         "  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")); fi\n"
         "}\n"
         "complete -o default -F _ctxgen ctxgen\n";
}

std::string zsh_completion(std::span<const VerbEntry> verbs) {
  std::string text =
      "#compdef ctxgen\n"
      "# Completion of ctxgen for zsh, made from its declarations.\n"
      "_ctxgen() {\n"
      "  local curcontext=\"$curcontext\" state line\n"
      "  typeset -A opt_args\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const VerbEntry& verb : verbs)
    text += "    " + shell_quoted(verb.name + ":" + verb.text) + "\n";
  text +=
      "  )\n"
      "  _arguments -C '--help[help]' '--version[versions]' '1: :->verb' '*:: :->rest'\n"
      "  case $state in\n"
      "  verb) _describe command verbs ;;\n"
      "  rest)\n"
      "    case $words[1] in\n";
  for (const VerbEntry& verb : verbs) {
    text += "    " + verb.name + ")\n      _arguments \\\n";
    for (const FlagEntry& option : verb.options) text += zsh_option(option);
    text += "        '*:file:_files' ;;\n";
  }
  return text + "    esac ;;\n  esac\n}\n_ctxgen \"$@\"\n";
}

std::string fish_completion(std::span<const VerbEntry> verbs) {
  std::string text = "# Completion of ctxgen for fish, made from its declarations.\n";
  text += "complete -c ctxgen -n __fish_use_subcommand -f -l help -d 'help'\n";
  text += "complete -c ctxgen -n __fish_use_subcommand -f -l version -d 'versions'\n";
  for (const VerbEntry& verb : verbs)
    text += std::format("complete -c ctxgen -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                        fish_quoted(verb.text));
  for (const VerbEntry& verb : verbs)
    for (const FlagEntry& option : verb.options) {
      text += std::format("complete -c ctxgen -n '__fish_seen_subcommand_from {}'", verb.name);
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2)
                : name.size() == 2     ? " -s " + name.substr(1)
                                       : " -o " + name.substr(1);
      if (!option.value.empty()) text += " -r";
      if (!option.choices.empty()) text += " -f -a " + fish_quoted(joined(option.choices, " "));
      text += " -d " + fish_quoted(option.text) + "\n";
    }
  return text;
}

}  // namespace ctxgen::cli
