#include "flags/options_file.h"

#include <set>
#include <string_view>
#include <vector>

#include "ctxgen/base/file.h"

#include "flags/flag_table.h"
#include "flags/usage.h"

namespace ctxgen::cli {
namespace {

constexpr const char* kFlag = "--options";
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

class Splitter {
 public:
  Splitter(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Result<std::vector<Word>> split() {
    std::vector<Word> words;
    while (skip_blanks()) {
      Word word{{}, line_};
      CTXGEN_CHECK(read(word));
      words.push_back(std::move(word));
    }
    return words;
  }

 private:
  /// To the next word; false at the end.
  bool skip_blanks() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else
        take();
    }
    return at_ < text_.size();
  }

  char take() {
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }

  Status read(Word& word) {
    char quote = 0;
    while (at_ < text_.size() && (quote != 0 || !is_blank(text_[at_]))) {
      const char c = take();
      if (c == '\0') return fail(ErrorCode::kInvalidArgument, "{}:{}: a zero byte", name_, line_);
      if (c == '\\' && quote != '\'') {
        if (at_ == text_.size())
          return fail(ErrorCode::kInvalidArgument, "{}:{}: a backslash at the end", name_, line_);
        word.text += take();
      } else if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
      } else if (quote != 0 && c == quote) {
        quote = 0;
      } else {
        word.text += c;
      }
    }
    if (quote == 0) return {};
    return fail(ErrorCode::kInvalidArgument, "{}:{}: {} is not closed", name_, word.line, quote);
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

class OptionsFile {
 public:
  OptionsFile(CLI::App& verb, std::string name) : verb_(verb), name_(std::move(name)) {
    for (const CLI::Option* option : verb_.get_options())
      if (option->count() > 0) given_.insert(option);
  }

  Status apply(const std::vector<Word>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const Word& word = words[i];
      const std::size_t equals =
          word.text.starts_with("--") ? word.text.find('=') : std::string::npos;
      const std::string option_name = word.text.substr(0, equals);
      CLI::Option* option = CTXGEN_TRY(find(option_name, word));
      std::string value = "true";
      if (equals != std::string::npos) {
        value = word.text.substr(equals + 1);
      } else if (option->get_items_expected_max() > 0) {
        if (i + 1 == words.size())
          return fail(ErrorCode::kInvalidArgument, "{}:{}: {} needs a value", name_, word.line,
                      option_name);
        value = words[++i].text;
      }
      CTXGEN_CHECK(add(*option, option_name, std::move(value), word, equals != std::string::npos));
    }
    return finish();
  }

 private:
  Result<CLI::Option*> find(const std::string& name, const Word& word) const {
    CLI::Option* option =
        name.starts_with('-') ? verb_.get_option_no_throw(long_name(name)) : nullptr;
    if (option == nullptr)
      return fail(ErrorCode::kInvalidArgument, "{}:{}: unknown option \"{}\" of {}{}", name_,
                  word.line, name, verb_.get_name(), option_hint(verb_, name));
    if (option->check_name(kFlag) || option == verb_.get_help_ptr())
      return fail(ErrorCode::kInvalidArgument, "{}:{}: {} is not allowed in an options file", name_,
                  word.line, name);
    return option;
  }

  static std::string long_name(const std::string& name) {
    return is_gcc_option("-" + name) ? "-" + name : name;
  }

  Status add(CLI::Option& option, const std::string& name, std::string value, const Word& word,
             bool with_value) {
    if (given_.contains(&option)) return {};
    try {
      if (option.get_items_expected_max() == 0) {
        if (with_value)
          return fail(ErrorCode::kInvalidArgument, "{}:{}: {} takes no value", name_, word.line,
                      name);
        value = option.get_flag_value(long_name(name), "");
      }
      option.add_result(std::move(value));
    } catch (const CLI::Error& error) {
      return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", name_, word.line, error.what());
    }
    lines_.emplace_back(&option, word.line);
    return {};
  }

  /// Checks the values and puts them where the verb looks for them.
  Status finish() {
    std::set<const CLI::Option*> done;
    for (const auto& [option, line] : lines_) {
      if (!done.insert(option).second) continue;
      try {
        option->run_callback();
      } catch (const CLI::Error& error) {
        return fail(ErrorCode::kInvalidArgument, "{}:{}: {}", name_, line, error.what());
      }
    }
    return {};
  }

  CLI::App& verb_;
  std::string name_;
  std::set<const CLI::Option*> given_;  // on the command line
  std::vector<std::pair<CLI::Option*, std::size_t>> lines_;
};

}  // namespace

Result<std::vector<Word>> split_words(std::string_view text, const std::string& name) {
  return Splitter(text, name).split();
}

void add_options_file(CLI::App& verb, std::string& file) {
  verb.add_option(kFlag, file,
                  "read more options from a file; the command line takes precedence (docs/cli.md)")
      ->type_name("FILE");
}

Status apply_options_text(CLI::App& verb, std::string_view text, const std::string& name) {
  const std::vector<Word> words = CTXGEN_TRY(split_words(text, name));
  return OptionsFile(verb, name).apply(words);
}

Status apply_options_file(CLI::App& verb) {
  const CLI::Option* option = verb.get_option_no_throw(kFlag);
  if (option == nullptr || option->count() == 0) return {};
  const std::string name = option->as<std::string>();
  const Blob file = CTXGEN_TRY(map_file(name));
  if (file.bytes.size() > kMaxFileBytes)
    return fail(ErrorCode::kResourceLimit, "\"{}\": the options file has {} bytes, limit {}", name,
                file.bytes.size(), kMaxFileBytes);
  const std::string text(as_text(file.bytes));  // the file may change while it is mapped
  return apply_options_text(verb, text, name);
}

}  // namespace ctxgen::cli
