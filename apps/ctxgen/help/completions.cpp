#include "help/completions.h"

#include <format>
#include <set>
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

constexpr std::string_view kTop = "--help --version help";

// ---- bash ----------------------------------------------------------------------------------------

/// Helpers of the script: a word of a list after its last comma, and keys, which no blank ends.
constexpr std::string_view kBashHelpers =
    "_ctxgen_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$2\")) || true; }\n"
    "_ctxgen_list() {\n"
    "  local before=\n"
    "  [[ $2 == *,* ]] && before=${2%,*},\n"
    "  COMPREPLY=($(compgen -P \"$before\" -W \"$1\" -- \"${2##*,}\")) || true\n"
    "}\n"
    "_ctxgen_keys() {\n"
    "  compopt -o nospace 2> /dev/null || true\n"
    "  COMPREPLY=($(compgen -W \"$1\" -- \"$2\")) || true\n"
    "}\n";

bool has_keys(const FlagEntry& option) {
  return !option.choices.empty() && option.choices.front().ends_with('=');
}

/// The branch of one verb: values by the word before, else its options.
std::string bash_branch(const VerbEntry& verb, std::string_view indent) {
  std::string values, choices;
  for (const FlagEntry& option : verb.options) {
    if (option.value.empty()) continue;
    if (option.choices.empty())
      values += (values.empty() ? "" : "|") + joined(option.names, "|");
    else
      choices +=
          std::format("{}    {}) {} '{}' \"$cur\"; return ;;\n", indent, joined(option.names, "|"),
                      option.is_list     ? "_ctxgen_list"
                      : has_keys(option) ? "_ctxgen_keys"
                                         : "_ctxgen_words",
                      joined(option.choices, " "));
  }
  std::string text = std::format("{}{})\n{}  case $prev in\n", indent, verb.name, indent);
  if (!values.empty())
    text += std::format("{}    {}) return ;;  # a file, or what the user knows\n", indent, values);
  return text + choices +
         std::format("{}  esac\n{}  words='{}' ;;\n", indent, indent, option_names(verb));
}

/// The branch of a verb of verbs.
std::string bash_branch_of_verbs(const VerbEntry& verb) {
  std::string text = std::format(
      "    {})\n"
      "      if ((COMP_CWORD == 2)); then\n"
      "        _ctxgen_words '{} {}' \"$cur\"\n"
      "        return\n"
      "      fi\n"
      "      case ${{COMP_WORDS[2]}} in\n",
      verb.name, verb_names(verb.verbs), option_names(verb));
  for (const VerbEntry& one : verb.verbs) text += bash_branch(one, "        ");
  return text + "      esac ;;\n";
}

// ---- zsh -----------------------------------------------------------------------------------------

std::string zsh_action(const FlagEntry& option) {
  if (option.choices.empty()) return "_files";
  const std::string words = joined(option.choices, " ");
  if (option.is_list) return "{_values -s , value " + words + "}";
  if (has_keys(option)) return "{compadd -S \"\" -- " + with_backslashes(words) + "}";
  return "(" + words + ")";
}

/// One spec of _arguments per spelling.
std::string zsh_option(const FlagEntry& option) {
  std::string text;
  for (const std::string& name : option.names) {
    std::string spec = "*" + name;
    if (!option.value.empty() && name.starts_with("--")) spec += "=";
    spec += "[" + with_backslashes(option.text) + "]";
    if (!option.value.empty())
      spec += ":" + with_backslashes(option.value) + ":" + zsh_action(option);
    text += "        " + shell_quoted(spec) + " \\\n";
  }
  return text;
}

std::string zsh_branch(const VerbEntry& verb) {
  std::string text = "    " + verb.name + ")\n      _arguments \\\n";
  for (const FlagEntry& option : verb.options) text += zsh_option(option);
  if (verb.verbs.empty()) return text + "        '*:file:_files' ;;\n";
  std::set<std::string> seen{"--help"};
  for (const VerbEntry& one : verb.verbs)
    for (const FlagEntry& option : one.options)
      if (seen.insert(option.names.back()).second) text += zsh_option(option);
  return text + "        '1:command:(" + verb_names(verb.verbs) + ")' ;;\n";
}

// ---- fish ----------------------------------------------------------------------------------------

std::string fish_values(const FlagEntry& option) {
  if (option.choices.empty()) return "";
  const std::string words = joined(option.choices, " ");
  if (option.is_list)
    return " -f -a " + fish_quoted("(__fish_complete_list , 'string split \" \" " + words + "')");
  return " -f -a " + fish_quoted(words);
}

std::string fish_options(const VerbEntry& verb, const std::string& condition) {
  std::string text;
  for (const FlagEntry& option : verb.options) {
    text += "complete -c ctxgen -n " + fish_quoted(condition);
    for (const std::string& name : option.names)
      text += name.starts_with("--") ? " -l " + name.substr(2)
              : name.size() == 2     ? " -s " + name.substr(1)
                                     : " -o " + name.substr(1);
    if (!option.value.empty()) text += " -r";
    text += fish_values(option) + " -d " + fish_quoted(option.text) + "\n";
  }
  return text;
}

}  // namespace

std::string bash_completion(std::span<const VerbEntry> verbs) {
  std::string text = std::format(
      "# Completion of ctxgen for bash, made from its declarations.\n"
      "{}"
      "_ctxgen() {{\n"
      "  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} words=\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    _ctxgen_words '{} {}' \"$cur\"\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n"
      "    help) _ctxgen_words '{}' \"$cur\"; return ;;\n",
      kBashHelpers, verb_names(verbs), kTop, verb_names(verbs));
  for (const VerbEntry& verb : verbs)
    text += verb.verbs.empty() ? bash_branch(verb, "    ") : bash_branch_of_verbs(verb);
  return text +
         "  esac\n"
         "  if [[ $cur == -* ]]; then _ctxgen_words \"$words\" \"$cur\"; fi\n"
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
      "  verbs=(\n"
      "    'help:options and examples of a command'\n";
  for (const VerbEntry& verb : verbs)
    text += "    " + shell_quoted(verb.name + ":" + verb.text) + "\n";
  text +=
      "  )\n"
      "  _arguments -C '--help[help]' '--version[versions]' '1: :->verb' '*:: :->rest'\n"
      "  case $state in\n"
      "  verb) _describe command verbs ;;\n"
      "  rest)\n"
      "    case $words[1] in\n"
      "    help) _describe command verbs ;;\n";
  for (const VerbEntry& verb : verbs) text += zsh_branch(verb);
  return text + "    esac ;;\n  esac\n}\n_ctxgen \"$@\"\n";
}

std::string fish_completion(std::span<const VerbEntry> verbs) {
  std::string text = "# Completion of ctxgen for fish, made from its declarations.\n";
  text += "complete -c ctxgen -n __fish_use_subcommand -f -l help -d 'help'\n";
  text += "complete -c ctxgen -n __fish_use_subcommand -f -l version -d 'versions'\n";
  text += std::format(
      "complete -c ctxgen -n __fish_use_subcommand -f -a help -d 'options and examples of a command'\n"
      "complete -c ctxgen -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
      verb_names(verbs));
  for (const VerbEntry& verb : verbs)
    text += std::format("complete -c ctxgen -n __fish_use_subcommand -f -a {} -d {}\n", verb.name,
                        fish_quoted(verb.text));
  for (const VerbEntry& verb : verbs) {
    const std::string seen = "__fish_seen_subcommand_from " + verb.name;
    text += fish_options(verb, seen);
    for (const VerbEntry& one : verb.verbs) {
      text += std::format(
          "complete -c ctxgen -n '{}; and not __fish_seen_subcommand_from {}' -f -a {} -d {}\n",
          seen, verb_names(verb.verbs), one.name, fish_quoted(one.text));
      text += fish_options(one, seen + "; and __fish_seen_subcommand_from " + one.name);
    }
  }
  return text;
}

}  // namespace ctxgen::cli
