#include "flags/usage.h"

#include <algorithm>
#include <format>
#include <iterator>
#include <map>
#include <optional>

#include "ctxgen/base/suggest.h"

#include "flags/flag_table.h"

namespace ctxgen::cli {
namespace {

std::vector<const CLI::App*> verbs_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

/// Names of what the help shows.
std::vector<std::string> verb_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : verbs_of(app))
    if (!verb->get_group().empty()) names.push_back(verb->get_name());
  return names;
}

const CLI::App* find_verb(const CLI::App& app, std::string_view name) {
  const auto verbs = verbs_of(app);
  const auto at = std::ranges::find(verbs, name, &CLI::App::get_name);
  return at == verbs.end() ? nullptr : *at;
}

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

/// As it is typed: gcc's options are declared with a dash more (build_flags.h).
std::string typed(std::string_view name) {
  return std::string(is_gcc_option(name) ? name.substr(1) : name);
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const FlagEntry& option : flags_of(verb))
    std::ranges::copy(option.names, std::back_inserter(names));
  return names;
}

std::unexpected<Error> usage_error(const CLI::App& app, const std::string& text) {
  return fail(ErrorCode::kInvalidArgument, "{} ({} --help)", text, command_of(app));
}

/// Walks the words after a verb as CLI11 will.
class Walk {
 public:
  Walk(const CLI::App& verb, std::vector<std::string>& words, std::size_t at)
      : verb_(verb), words_(words), at_(at) {}

  Status run() {
    while (at_ < words_.size() && !help_) CTXGEN_CHECK(word());
    if (help_) return {};
    return check_arguments();
  }
  [[nodiscard]] bool json() const { return json_; }

 private:
  Status word() {
    const std::string word = words_[at_];
    if (!options_ended_ && word == "--") {
      options_ended_ = true;
      ++at_;
      return {};
    }
    if (options_ended_ || !is_option(word)) {
      arguments_.push_back(word);
      ++at_;
      return {};
    }
    return word.starts_with("--") ? long_option(word) : short_options(word);
  }

  Status long_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const CLI::Option* option = name.size() > 2 ? verb_.get_option_no_throw(name) : nullptr;
    if (option == nullptr) return unknown(name);
    CTXGEN_CHECK(seen(*option, typed(name)));
    if (equals != std::string::npos && equals + 1 == word.size()) {
      if (option->get_items_expected_max() == 0 || option->get_items_expected_min() == 0)
        return usage_error(verb_, std::format("{}: expected a value after \"=\"", typed(name)));
      words_[at_] = name;
      words_.insert(words_.begin() + static_cast<std::ptrdiff_t>(at_) + 1, "");
    }
    const bool has_value = equals != std::string::npos && equals + 1 < word.size();
    ++at_;
    if (has_value) return {};
    CTXGEN_CHECK(check_joined(*option, name));
    return value(*option, name);
  }

  /// A flag whose value is after "=": a number in the next word was meant for it.
  [[nodiscard]] Status check_joined(const CLI::Option& option, const std::string& name) const {
    if (!option.get_type_name().starts_with("[=") || at_ == words_.size()) return {};
    const std::string& next = words_[at_];
    if (!std::ranges::all_of(next, [](char c) { return c >= '0' && c <= '9'; })) return {};
    return usage_error(verb_,
                       std::format("{} takes its value with \"=\": {}={}", name, name, next));
  }

  /// "-q", "-qv", "-o FILE", "-oFILE".
  Status short_options(const std::string& word) {
    for (std::size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      const CLI::Option* option = verb_.get_option_no_throw(name);
      if (option == nullptr) return unknown(i == 1 ? word.substr(0, word.find('=')) : name);
      CTXGEN_CHECK(seen(*option, name));
      if (option->get_items_expected_max() == 0) continue;
      ++at_;
      return i + 1 < word.size() ? Status() : value(*option, name);
    }
    ++at_;
    return {};
  }

  /// The value is the next word, whatever it looks like.
  Status value(const CLI::Option& option, const std::string& name) {
    if (option.get_items_expected_min() == 0) return {};
    if (at_ == words_.size())
      return usage_error(verb_,
                         std::format("{} needs a value ({})", typed(name), option.get_type_name()));
    ++at_;
    return {};
  }

  Status seen(const CLI::Option& option, const std::string& name) {
    help_ = help_ || &option == verb_.get_help_ptr();
    json_ = json_ || option.check_lname("json");
    const bool once = option.get_items_expected_max() == 1 &&
                      option.get_multi_option_policy() == CLI::MultiOptionPolicy::Throw;
    if (++counts_[&option] > 1 && once)
      return usage_error(verb_, std::format("{} is given twice", name));
    return {};
  }

  [[nodiscard]] Status unknown(const std::string& name) const {
    return usage_error(verb_, std::format("unknown option \"{}\"{}", typed(name),
                                          option_hint(verb_, typed(name))));
  }

  [[nodiscard]] Status check_arguments() const {
    std::size_t most = 0;
    for (const CLI::Option* option : verb_.get_options()) {
      if (!option->get_positional()) continue;
      const auto takes = static_cast<std::size_t>(option->get_items_expected_max());
      if (option->get_required() && arguments_.size() <= most)
        return usage_error(verb_,
                           std::format("{} needs {}", verb_.get_name(), option->get_type_name()));
      most += takes;
    }
    if (arguments_.size() <= most) return {};
    return usage_error(verb_, std::format("unexpected argument \"{}\"", arguments_[most]));
  }

  const CLI::App& verb_;
  std::vector<std::string>& words_;
  std::size_t at_;
  bool options_ended_ = false, help_ = false, json_ = false;
  std::vector<std::string> arguments_;
  std::map<const CLI::Option*, int> counts_;
};

/// The verb that `words` begin with and where its own words begin. A verb of verbs (cache) leads on.
struct Found {
  const CLI::App* verb;
  std::size_t next;
};

Result<Found> find_command(const CLI::App& app, const std::vector<std::string>& words,
                           std::size_t at) {
  const auto names = verb_names(app);
  const char* const what = app.get_parent() == nullptr ? "command" : "command of";
  const std::string whose = app.get_parent() == nullptr ? "" : " " + app.get_name();
  if (at == words.size() || (app.get_parent() != nullptr && is_option(words[at])))
    return usage_error(app, std::format("expected a {}{}: {}", what, whose, one_of_text(names)));
  const std::string& word = words[at];
  const CLI::App* verb = find_verb(app, word);
  if (verb == nullptr && is_option(word))
    return usage_error(app, std::format("unknown option \"{}\"{}; options follow the command: {}",
                                        word, option_hint(app, word), one_of_text(names)));
  if (verb == nullptr) {
    const std::string hint = did_you_mean(word, names);
    return usage_error(app, std::format("unknown {}{} \"{}\"{}", what, whose, word,
                                        hint.empty() ? "; expected " + one_of_text(names) : hint));
  }
  const bool help = at + 1 < words.size() && (words[at + 1] == "--help" || words[at + 1] == "-h");
  if (verbs_of(*verb).empty() || help) return Found{verb, at + 1};
  return find_command(*verb, words, at + 1);
}

/// "help", "help compile", "help cache trim": as an option of what is named.
void put_help_last(std::vector<std::string>& words) {
  if (words.empty() || words.front() != "help") return;
  words.erase(words.begin());
  words.emplace_back("--help");
}

bool is_top_option(const CLI::App& app, const std::string& word) {
  return is_option(word) && app.get_option_no_throw(word) != nullptr;
}

}  // namespace

Result<std::vector<std::string>> check_words(const Cli& cli, std::vector<std::string> words) {
  put_help_last(words);
  if (!words.empty() && is_top_option(cli.app, words.front())) return words;  // --help, --version
  const Found found = CTXGEN_TRY(find_command(cli.app, words, 0));
  CTXGEN_CHECK(Walk(*found.verb, words, found.next).run());
  return words;
}

bool asks_for_json(const Cli& cli, const std::vector<std::string>& words) {
  if (std::ranges::contains(words, "--variant")) return false;  // its output is not JSON
  const auto found = find_command(cli.app, words, 0);
  // Where it is not known which words are values, any that says so asks.
  const auto options = std::ranges::find(words, "--");
  const bool named = std::ranges::find(words.begin(), options, "--json") != options;
  if (!named || !found) return named;
  if (found->verb->get_option_no_throw("--json") == nullptr) return true;  // as it will be told
  std::vector<std::string> copy = words;
  Walk walk(*found->verb, copy, found->next);
  return !walk.run() || walk.json();
}

std::string option_hint(const CLI::App& verb, std::string_view name) {
  const auto names = option_names(verb);
  // "-threads" is "--threads" with a common typo.
  const std::string longer = "-" + std::string(name);
  if (!name.starts_with("--") && std::ranges::contains(names, longer))
    return std::format("; did you mean \"{}\"?", longer);
  const std::string hint = did_you_mean(name, names);
  if (!hint.empty() || verb.get_parent() == nullptr) return hint;
  for (const CLI::App* other : verbs_of(*verb.get_parent()))
    if (other != &verb && std::ranges::contains(option_names(*other), name))
      return std::format("; it is an option of {}", command_of(*other));
  return "";
}

std::string command_of(const CLI::App& verb) {
  if (verb.get_parent() == nullptr) return verb.get_name();
  return command_of(*verb.get_parent()) + " " + verb.get_name();
}

}  // namespace ctxgen::cli
