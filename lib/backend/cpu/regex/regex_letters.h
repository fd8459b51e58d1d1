#pragma once

#include <optional>
#include <string_view>

#include "regex/regex_match.h"

// Sets of letters in regular expressions.

namespace ctxgen::cpu {

inline constexpr char32_t kLastLetter = 0x10FFFF;

[[nodiscard]] Regex::Letters inverted(Regex::Letters letters);
/// With the other case of every ASCII letter in it, as RE2's (?i) beyond the few Unicode foldings.
[[nodiscard]] Regex::Letters with_other_case(const Regex::Letters& letters);
/// What \d \D \w \W \s \S stand for.
[[nodiscard]] std::optional<Regex::Letters> named_letters(char32_t name);
/// What [:alpha:] and the like stand for.
[[nodiscard]] std::optional<Regex::Letters> posix_letters(std::u32string_view name);
/// What \n \t \r \f \v \a stand for.
[[nodiscard]] std::optional<char32_t> control_letter(char32_t name);
/// -1: none.
[[nodiscard]] int hex_digit(char32_t letter);

}  // namespace ctxgen::cpu
