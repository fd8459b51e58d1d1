#include "regex/regex_letters.h"

#include <algorithm>

namespace ctxgen::cpu {

using Letters = Regex::Letters;

Letters inverted(Letters letters) {
  std::ranges::sort(letters);
  Letters out;
  char32_t next = 0;
  for (const auto& [first, last] : letters) {
    if (first > next) out.emplace_back(next, first - 1);
    next = std::max(next, static_cast<char32_t>(last + 1));
  }
  if (next <= kLastLetter) out.emplace_back(next, kLastLetter);
  return out;
}

Letters with_other_case(const Letters& letters) {
  Letters all = letters;
  const auto add = [&all](char32_t first, char32_t last, char32_t from, char32_t to, int shift) {
    const char32_t a = std::max(first, from);
    const char32_t b = std::min(last, to);
    if (a <= b)
      all.emplace_back(static_cast<char32_t>(static_cast<int>(a) + shift),
                       static_cast<char32_t>(static_cast<int>(b) + shift));
  };
  for (const auto& [first, last] : letters) {
    add(first, last, U'a', U'z', -32);
    add(first, last, U'A', U'Z', 32);
  }
  return all;
}

std::optional<Letters> named_letters(char32_t name) {
  switch (name) {
    case U'd': return posix_letters(U"digit");
    case U'D': return inverted(*posix_letters(U"digit"));
    case U'w': return posix_letters(U"word");
    case U'W': return inverted(*posix_letters(U"word"));
    case U's': return Letters{{U'\t', U'\n'}, {U'\f', U'\r'}, {U' ', U' '}};
    case U'S': return inverted({{U'\t', U'\n'}, {U'\f', U'\r'}, {U' ', U' '}});
    default: return std::nullopt;
  }
}

std::optional<Letters> posix_letters(std::u32string_view name) {
  struct Named {
    std::u32string_view name;
    Letters letters;
  };
  static const std::vector<Named> kNamed{
      {U"alnum", {{U'0', U'9'}, {U'A', U'Z'}, {U'a', U'z'}}},
      {U"alpha", {{U'A', U'Z'}, {U'a', U'z'}}},
      {U"ascii", {{0, 127}}},
      {U"blank", {{U'\t', U'\t'}, {U' ', U' '}}},
      {U"cntrl", {{0, 31}, {127, 127}}},
      {U"digit", {{U'0', U'9'}}},
      {U"graph", {{U'!', U'~'}}},
      {U"lower", {{U'a', U'z'}}},
      {U"print", {{U' ', U'~'}}},
      {U"punct", {{U'!', U'/'}, {U':', U'@'}, {U'[', U'`'}, {U'{', U'~'}}},
      {U"space", {{U'\t', U'\r'}, {U' ', U' '}}},
      {U"upper", {{U'A', U'Z'}}},
      {U"word", {{U'0', U'9'}, {U'A', U'Z'}, {U'_', U'_'}, {U'a', U'z'}}},
      {U"xdigit", {{U'0', U'9'}, {U'A', U'F'}, {U'a', U'f'}}},
  };
  for (const Named& one : kNamed)
    if (one.name == name) return one.letters;
  return std::nullopt;
}

std::optional<char32_t> control_letter(char32_t name) {
  switch (name) {
    case U'a': return U'\a';
    case U'f': return U'\f';
    case U'n': return U'\n';
    case U'r': return U'\r';
    case U't': return U'\t';
    case U'v': return U'\v';
    default: return std::nullopt;
  }
}

int hex_digit(char32_t letter) {
  if (letter >= U'0' && letter <= U'9') return static_cast<int>(letter - U'0');
  if (letter >= U'a' && letter <= U'f') return static_cast<int>(letter - U'a') + 10;
  if (letter >= U'A' && letter <= U'F') return static_cast<int>(letter - U'A') + 10;
  return -1;
}

}  // namespace ctxgen::cpu
