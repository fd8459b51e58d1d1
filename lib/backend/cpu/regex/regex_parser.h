#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "regex/regex_match.h"

namespace ctxgen::cpu {

/// Reads a pattern by recursive descent and writes its states.
class RegexParser {
 public:
  RegexParser(std::string_view pattern, std::vector<Regex::Step>& steps,
              std::vector<Regex::Letters>& letters);
  /// The first state.
  [[nodiscard]] Result<std::uint32_t> parse();

 private:
  using Letters = Regex::Letters;
  using Op = Regex::Op;
  struct Flags {
    bool any_case = false;    // i
    bool dot_is_any = false;  // s
  };
  /// A part of the automaton: its first state, and the last one, whose `next` is not set yet.
  struct Part {
    std::uint32_t first = 0, last = 0;
  };
  /// A class in brackets, read once: its index among the letters, and the text after it.
  struct Class {
    std::uint32_t letters = 0;
    std::size_t behind = 0;
  };
  struct Repeat {
    int least = 1, most = 1;  // most < 0: no bound
  };

  [[nodiscard]] Result<Part> alternatives();
  [[nodiscard]] Result<Part> branch();
  [[nodiscard]] Result<Part> repeated();
  [[nodiscard]] Result<Part> atom();
  [[nodiscard]] Result<Part> group();
  [[nodiscard]] Result<bool> group_head();  // whether a body follows, or "(?i)" is done
  [[nodiscard]] Result<Part> escape();
  [[nodiscard]] Result<bool> repeat_here(Repeat& repeat);
  [[nodiscard]] Result<Part> write_repeat(std::size_t from, const Repeat& repeat,
                                          const Flags& flags);
  [[nodiscard]] Result<Part> class_state();
  [[nodiscard]] Result<Letters> letter_class();
  [[nodiscard]] Result<Letters> class_item();
  [[nodiscard]] Result<char32_t> escaped_letter();

  [[nodiscard]] Result<Part> state(Op op);
  [[nodiscard]] Result<Part> letters_state(Letters letters);
  [[nodiscard]] Result<Part> letters_state(std::uint32_t index);
  [[nodiscard]] std::uint32_t kept(Letters letters);  // their index
  /// A way around the part, and with `again` one back.
  [[nodiscard]] Result<Part> skippable(Part part, bool again);
  [[nodiscard]] Part joined(Part a, Part b);

  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] bool take(char32_t letter);
  [[nodiscard]] bool take(std::u32string_view word);
  [[nodiscard]] std::unexpected<Error> bad(std::string_view what) const;
  [[nodiscard]] std::unexpected<Error> unknown(std::string_view what) const;

  std::u32string text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  Flags flags_;
  std::vector<Regex::Step>& steps_;
  std::vector<Letters>& letters_;
  std::map<std::pair<std::size_t, bool>, Class> classes_;  // by place and any_case
};

}  // namespace ctxgen::cpu
