#include "regex/regex_match.h"

#include "kernel/stop.h"
#include "regex/regex_parser.h"
#include "regex/utf8.h"

namespace ctxgen::cpu {
namespace {

bool contains(const Regex::Letters& letters, char32_t letter) {
  for (const auto& [first, last] : letters)
    if (letter >= first && letter <= last) return true;
  return false;
}

bool is_word(char32_t letter) {
  return (letter >= U'0' && letter <= U'9') || (letter >= U'a' && letter <= U'z') ||
         (letter >= U'A' && letter <= U'Z') || letter == U'_';
}

}  // namespace

/// The states that are alive at one place of the text.
class Regex::Run {
 public:
  Run(const Regex& regex, std::u32string_view text)
      : regex_(regex), text_(text), seen_(regex.steps_.size(), SIZE_MAX) {}

  bool full_match() {
    add(regex_.start_);
    for (; at_ < text_.size(); ++at_) {
      std::vector<std::uint32_t> here = std::move(states_);
      states_.clear();
      const char32_t letter = text_[at_];
      ++at_;
      for (const std::uint32_t state : here) {
        const Step& step = regex_.steps_[state];
        if (step.op == Op::kLetter && contains(regex_.letters_[step.other], letter)) add(step.next);
      }
      --at_;
      if (states_.empty() || run_stopped()) return false;
    }
    for (const std::uint32_t state : states_)
      if (regex_.steps_[state].op == Op::kMatch) return true;
    return false;
  }

 private:
  // Follows what takes no letter; at_ is the number of letters taken.
  void add(std::uint32_t first) {
    std::vector<std::uint32_t> todo{first};
    while (!todo.empty()) {
      const std::uint32_t state = todo.back();
      todo.pop_back();
      if (seen_[state] == at_) continue;
      seen_[state] = at_;
      const Step& step = regex_.steps_[state];
      switch (step.op) {
        case Op::kLetter:
        case Op::kMatch: states_.push_back(state); break;
        case Op::kSplit:
          todo.push_back(step.next);
          todo.push_back(step.other);
          break;
        default:
          if (holds(step.op)) todo.push_back(step.next);
          break;
      }
    }
  }

  [[nodiscard]] bool holds(Op op) const {
    if (op == Op::kJump) return true;
    if (op == Op::kStart) return at_ == 0;
    if (op == Op::kEnd) return at_ == text_.size();
    const bool before = at_ > 0 && is_word(text_[at_ - 1]);
    const bool after = at_ < text_.size() && is_word(text_[at_]);
    return (before != after) == (op == Op::kBoundary);
  }

  const Regex& regex_;
  std::u32string_view text_;
  std::size_t at_ = 0;
  std::vector<std::size_t> seen_;  // per state: where it was added last
  std::vector<std::uint32_t> states_;
};

Result<Regex> Regex::compile(std::string_view pattern) {
  Regex regex;
  RegexParser parser(pattern, regex.steps_, regex.letters_);
  auto start = CTXGEN_TRY_AT(parser.parse(), "pattern \"{}\"", pattern);
  regex.start_ = start;
  return regex;
}

bool Regex::full_match(std::string_view text) const {
  const std::u32string letters = decode_utf8(text);
  return Run(*this, letters).full_match();
}

}  // namespace ctxgen::cpu
