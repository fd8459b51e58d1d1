#include "regex/regex_parser.h"

#include <algorithm>

#include "regex/regex_letters.h"
#include "regex/utf8.h"

namespace ctxgen::cpu {
namespace {

// RE2's own limit of repetitions, and bounds for patterns that multiply them.
constexpr int kMaxRepeat = 1000;
constexpr std::size_t kMaxStates = 200'000;
constexpr std::size_t kMaxDepth = 200;

// \Q...\E is a way to write letters: each is escaped instead where that means something.
std::u32string without_quotes(const std::u32string& text) {
  std::u32string out;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == U'\\' && i + 1 < text.size();
    if (escape && text[i + 1] == (quoted ? U'E' : U'Q')) {
      quoted = !quoted;
      ++i;
    } else if (quoted) {
      if (std::u32string_view(U"\\^$.[]|()?*+{}-").contains(text[i])) out += U'\\';
      out += text[i];
    } else {
      out += text[i];
      if (escape) out += text[++i];
    }
  }
  return out;
}

}  // namespace

RegexParser::RegexParser(std::string_view pattern, std::vector<Regex::Step>& steps,
                         std::vector<Regex::Letters>& letters)
    : text_(without_quotes(decode_utf8(pattern))), steps_(steps), letters_(letters) {}

Result<std::uint32_t> RegexParser::parse() {
  const Part whole = CTXGEN_TRY(alternatives());
  if (!done()) return bad("\")\" without \"(\"");
  const Part end = CTXGEN_TRY(state(Op::kMatch));
  return joined(whole, end).first;
}

// ---- states ----

Result<RegexParser::Part> RegexParser::state(Op op) {
  if (steps_.size() >= kMaxStates)
    return fail(ErrorCode::kResourceLimit, "more than {} states", kMaxStates);
  const auto index = static_cast<std::uint32_t>(steps_.size());
  steps_.push_back({.op = op});
  return Part{index, index};
}

Result<RegexParser::Part> RegexParser::letters_state(Letters letters) {
  return letters_state(kept(std::move(letters)));
}

Result<RegexParser::Part> RegexParser::letters_state(std::uint32_t index) {
  const Part part = CTXGEN_TRY(state(Op::kLetter));
  steps_[part.first].other = index;
  return part;
}

std::uint32_t RegexParser::kept(Letters letters) {
  if (flags_.any_case) letters = with_other_case(letters);
  letters_.push_back(std::move(letters));
  return static_cast<std::uint32_t>(letters_.size() - 1);
}

RegexParser::Part RegexParser::joined(Part a, Part b) {
  steps_[a.last].next = b.first;
  return {a.first, b.last};
}

Result<RegexParser::Part> RegexParser::skippable(Part part, bool again) {
  const Part split = CTXGEN_TRY(state(Op::kSplit));
  const Part end = CTXGEN_TRY(state(Op::kJump));
  steps_[split.first].next = part.first;
  steps_[split.first].other = end.first;
  steps_[part.last].next = again ? split.first : end.first;
  return Part{split.first, end.last};
}

// ---- syntax ----

Result<RegexParser::Part> RegexParser::alternatives() {
  Part all = CTXGEN_TRY(branch());
  while (take(U'|')) {
    const Part other = CTXGEN_TRY(branch());
    const Part split = CTXGEN_TRY(state(Op::kSplit));
    const Part end = CTXGEN_TRY(state(Op::kJump));
    steps_[split.first].next = all.first;
    steps_[split.first].other = other.first;
    steps_[all.last].next = end.first;
    steps_[other.last].next = end.first;
    all = {split.first, end.last};
  }
  return all;
}

Result<RegexParser::Part> RegexParser::branch() {
  Part all = CTXGEN_TRY(state(Op::kJump));
  while (!done() && text_[at_] != U'|' && text_[at_] != U')')
    all = joined(all, CTXGEN_TRY(repeated()));
  return all;
}

Result<RegexParser::Part> RegexParser::repeated() {
  const std::size_t from = at_;
  const Flags flags = flags_;
  Part part = CTXGEN_TRY(atom());
  Repeat repeat;
  if (!CTXGEN_TRY(repeat_here(repeat))) return part;
  static_cast<void>(take(U'?'));  // lazy or not: the same full matches
  Repeat twice;
  const std::size_t behind = at_;
  if (CTXGEN_TRY(repeat_here(twice))) return bad("a repetition of a repetition");
  at_ = behind;
  if (repeat.least == 0 && repeat.most < 0) return skippable(part, true);
  if (repeat.least == 0 && repeat.most == 1) return skippable(part, false);
  if (repeat.least == 1 && repeat.most < 0)
    return joined(part, CTXGEN_TRY(write_repeat(from, {0, -1}, flags)));
  return write_repeat(from, repeat, flags);
}

// Reads the atom at `from` again for each repetition: copies of its states.
Result<RegexParser::Part> RegexParser::write_repeat(std::size_t from, const Repeat& repeat,
                                                    const Flags& flags) {
  const std::size_t behind = at_;
  const Flags flags_behind = flags_;
  Part all = CTXGEN_TRY(state(Op::kJump));
  const int copies = repeat.most < 0 ? repeat.least + 1 : repeat.most;
  for (int i = 0; i < copies; ++i) {
    at_ = from;
    flags_ = flags;
    Part part = CTXGEN_TRY(atom());
    if (i >= repeat.least) part = CTXGEN_TRY(skippable(part, repeat.most < 0));
    all = joined(all, part);
  }
  at_ = behind;
  flags_ = flags_behind;
  return all;
}

Result<bool> RegexParser::repeat_here(Repeat& repeat) {
  if (take(U'*'))
    repeat = {0, -1};
  else if (take(U'+'))
    repeat = {1, -1};
  else if (take(U'?'))
    repeat = {0, 1};
  else {
    const std::size_t from = at_;
    if (!take(U'{')) return false;
    const auto number = [this]() -> int {
      int value = -1;
      for (; !done() && text_[at_] >= U'0' && text_[at_] <= U'9'; ++at_)
        value =
            std::min(std::max(value, 0) * 10 + static_cast<int>(text_[at_] - U'0'), kMaxRepeat + 1);
      return value;
    };
    repeat.least = repeat.most = number();
    if (take(U',')) repeat.most = number();
    if (repeat.least < 0 || !take(U'}')) {  // no repetition after all: a letter
      at_ = from;
      return false;
    }
    if (repeat.least > kMaxRepeat || repeat.most > kMaxRepeat ||
        (repeat.most >= 0 && repeat.most < repeat.least))
      return bad("a repetition out of range");
  }
  return true;
}

Result<RegexParser::Part> RegexParser::atom() {
  const char32_t letter = text_[at_++];
  switch (letter) {
    case U'(': return group();
    case U'[': return class_state();
    case U'.': return letters_state(flags_.dot_is_any ? inverted({}) : inverted({{U'\n', U'\n'}}));
    case U'^': return state(Op::kStart);
    case U'$': return state(Op::kEnd);
    case U'\\': return escape();
    case U'*':
    case U'+':
    case U'?': return bad("a repetition of nothing");
    default: return letters_state({{letter, letter}});
  }
}

Result<RegexParser::Part> RegexParser::group() {
  if (++depth_ > kMaxDepth) return fail(ErrorCode::kResourceLimit, "groups nested too deeply");
  const Flags outside = flags_;
  if (!CTXGEN_TRY(group_head())) {  // flags for the rest of the group around
    --depth_;
    return state(Op::kJump);
  }
  const Part part = CTXGEN_TRY(alternatives());
  if (!take(U')')) return bad("\"(\" without \")\"");
  flags_ = outside;
  --depth_;
  return part;
}

Result<bool> RegexParser::group_head() {
  if (!take(U'?')) return true;
  if (take(U"P<") || (take(U'<') && !done() && text_[at_] != U'=' && text_[at_] != U'!')) {
    const std::size_t end = text_.find(U'>', at_);
    if (end == std::u32string::npos || end == at_) return bad("an unterminated group name");
    at_ = end + 1;
    return true;
  }
  for (bool value = true; !done();) {
    if (take(U':')) return true;
    if (take(U')')) return false;
    if (take(U'-'))
      value = false;
    else if (take(U'i'))
      flags_.any_case = value;
    else if (take(U's'))
      flags_.dot_is_any = value;
    else
      break;
  }
  return unknown("this kind of group");
}

Result<RegexParser::Part> RegexParser::escape() {
  if (done()) return bad("\"\\\" at the end");
  const char32_t letter = text_[at_];
  if (auto known = named_letters(letter)) {
    ++at_;
    return letters_state(*std::move(known));
  }
  if (take(U'A')) return state(Op::kStart);
  if (take(U'z')) return state(Op::kEnd);
  if (take(U'b')) return state(Op::kBoundary);
  if (take(U'B')) return state(Op::kNoBoundary);
  const char32_t meant = CTXGEN_TRY(escaped_letter());
  return letters_state({{meant, meant}});
}

// Behind a backslash: one letter.
Result<char32_t> RegexParser::escaped_letter() {
  if (done()) return bad("\"\\\" at the end");
  const char32_t letter = text_[at_++];
  if (const auto control = control_letter(letter)) return *control;
  if (letter == U'x') {
    const bool braces = take(U'{');
    char32_t value = 0;
    std::size_t digits = 0;
    for (; !done() && digits < (braces ? 6U : 2U); ++digits, ++at_) {
      const int digit = hex_digit(text_[at_]);
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (digits == 0 || (!braces && digits != 2) || (braces && !take(U'}')) || value > kLastLetter)
      return bad("a malformed \\x");
    return value;
  }
  const bool is_name = (letter >= U'a' && letter <= U'z') || (letter >= U'A' && letter <= U'Z') ||
                       (letter >= U'0' && letter <= U'9');
  if (is_name) return unknown("this \\ escape");
  return letter;
}

// Repetitions read the same text again, and share what is a large set in a hostile pattern.
Result<RegexParser::Part> RegexParser::class_state() {
  const std::pair place(at_, flags_.any_case);
  auto found = classes_.find(place);
  if (found == classes_.end()) {
    const std::uint32_t letters = kept(CTXGEN_TRY(letter_class()));
    found = classes_.emplace(place, Class{letters, at_}).first;
  }
  at_ = found->second.behind;
  return letters_state(found->second.letters);
}

Result<RegexParser::Letters> RegexParser::letter_class() {
  const bool negated = take(U'^');
  Letters all;
  for (bool first = true;; first = false) {
    if (done()) return bad("\"[\" without \"]\"");
    if (!first && take(U']')) break;
    Letters item = CTXGEN_TRY(class_item());
    const bool one = item.size() == 1 && item.front().first == item.front().second;
    const bool range =
        one && at_ + 1 < text_.size() && text_[at_] == U'-' && text_[at_ + 1] != U']';
    if (range) {
      ++at_;
      const Letters last = CTXGEN_TRY(class_item());
      if (last.size() != 1 || last.front().first != last.front().second ||
          last.front().first < item.front().first)
        return bad("a range that is not in order");
      item.front().second = last.front().first;
    }
    all.insert(all.end(), item.begin(), item.end());
  }
  if (flags_.any_case) all = with_other_case(all);
  return negated ? inverted(std::move(all)) : all;
}

Result<RegexParser::Letters> RegexParser::class_item() {
  if (done()) return bad("\"[\" without \"]\"");
  if (take(U"[:")) {
    const bool negated = take(U'^');
    const std::size_t end = text_.find(U":]", at_);
    if (end == std::u32string::npos) return bad("\"[:\" without \":]\"");
    auto letters = posix_letters(std::u32string_view(text_).substr(at_, end - at_));
    if (!letters) return bad("an unknown class");
    at_ = end + 2;
    return negated ? inverted(*std::move(letters)) : *std::move(letters);
  }
  char32_t letter = text_[at_++];
  if (letter != U'\\') return Letters{{letter, letter}};
  if (!done())
    if (auto known = named_letters(text_[at_])) {
      ++at_;
      return *std::move(known);
    }
  letter = CTXGEN_TRY(escaped_letter());
  return Letters{{letter, letter}};
}

// ---- text ----

bool RegexParser::take(char32_t letter) {
  if (done() || text_[at_] != letter) return false;
  ++at_;
  return true;
}

bool RegexParser::take(std::u32string_view word) {
  if (text_.compare(at_, word.size(), word) != 0) return false;
  at_ += word.size();
  return true;
}

std::unexpected<Error> RegexParser::bad(std::string_view what) const {
  return fail(ErrorCode::kInvalidGraph, "{} at letter {}", what, at_);
}

std::unexpected<Error> RegexParser::unknown(std::string_view what) const {
  return fail(ErrorCode::kUnsupported, "{} at letter {} is not known", what, at_);
}

}  // namespace ctxgen::cpu
