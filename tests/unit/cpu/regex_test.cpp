#include <gtest/gtest.h>

#include "regex/regex_match.h"
#include "regex/utf8.h"

namespace ctxgen::cpu {
namespace {

bool matches(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex) << pattern << ": " << (regex ? "" : regex.error().message);
  return regex && regex->full_match(text);
}

ErrorCode refusal(std::string_view pattern) {
  const auto regex = Regex::compile(pattern);
  EXPECT_FALSE(regex) << pattern;
  return regex ? ErrorCode::kInternal : regex.error().code;
}

TEST(Regex, MatchesTheWholeTextOnly) {
  EXPECT_TRUE(matches("abc", "abc"));
  EXPECT_FALSE(matches("abc", "abcd"));
  EXPECT_FALSE(matches("abc", "xabc"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("^abc$", "abc"));
  EXPECT_TRUE(matches("\\Aab\\z", "ab"));
}

TEST(Regex, Repeats) {
  EXPECT_TRUE(matches("a*", ""));
  EXPECT_TRUE(matches("a*b+c?", "aaabb"));
  EXPECT_FALSE(matches("a+", ""));
  EXPECT_TRUE(matches("(ab){2,3}", "abab"));
  EXPECT_TRUE(matches("(ab){2,3}", "ababab"));
  EXPECT_FALSE(matches("(ab){2,3}", "ab"));
  EXPECT_FALSE(matches("(ab){2,3}", "abababab"));
  EXPECT_TRUE(matches("a{3}", "aaa"));
  EXPECT_TRUE(matches("a{2,}", "aaaaa"));
  EXPECT_FALSE(matches("a{2,}", "a"));
  EXPECT_TRUE(matches("a{0}b", "b"));
  EXPECT_TRUE(matches("a??b*?", "abb"));
  EXPECT_TRUE(matches("a{,2}", "a{,2}")) << "no repetition without a least number";
  EXPECT_TRUE(matches("(a*)*b", "aaab")) << "loops of nothing end";
}

TEST(Regex, ChoosesAndGroups) {
  EXPECT_TRUE(matches("a|bc|", "bc"));
  EXPECT_TRUE(matches("a|bc|", ""));
  EXPECT_FALSE(matches("a|bc", "ac"));
  EXPECT_TRUE(matches("(?:x|y)z(?P<name>[0-9]+)(?<other>a)", "yz12a"));
}

TEST(Regex, KnowsClasses) {
  EXPECT_TRUE(matches("[a-c_]+", "ab_c"));
  EXPECT_FALSE(matches("[^a-c]", "b"));
  EXPECT_TRUE(matches("[]x-]+", "]-x"));
  EXPECT_TRUE(matches("\\d\\D\\w\\W\\s\\S", "1a_- x"));
  EXPECT_TRUE(matches("[\\d.]+[[:upper:]][[:^digit:]]", "1.2Ab"));
  EXPECT_FALSE(matches("\\s", "\v")) << "as in RE2";
  EXPECT_TRUE(matches(".", "\xC3\xA4")) << "one letter, two bytes";
  EXPECT_FALSE(matches(".", "\n"));
  EXPECT_TRUE(matches("(?s).", "\n"));
}

TEST(Regex, KnowsFlagsEscapesAndBoundaries) {
  EXPECT_TRUE(matches("(?i)AbC[x-z]", "aBcY"));
  EXPECT_TRUE(matches("a(?i:B)c", "abc"));
  EXPECT_FALSE(matches("a(?i:B)c", "aBC"));
  EXPECT_TRUE(matches("(?i)a(?-i)b", "Ab"));
  EXPECT_FALSE(matches("(?i)a(?-i)b", "AB"));
  EXPECT_TRUE(matches("\\.\\*\\x41\\x{e4}\\t", ".*A\xC3\xA4\t"));
  EXPECT_TRUE(matches("\\Qa.b*\\E+", "a.b**"));
  EXPECT_TRUE(matches("\\\\Q", "\\Q"));
  EXPECT_TRUE(matches("\\bfoo\\b.\\Bar", "foo bar") == false);
  EXPECT_TRUE(matches("foo\\b bar", "foo bar"));
}

TEST(Regex, RefusesWhatItDoesNotKnow) {
  for (const char* pattern :
       {"(", ")", "[a", "a**", "*a", "a{2,1}", "a{1001}", "[b-a]", "\\", "[[:nope:]]", "\\xg"})
    EXPECT_EQ(refusal(pattern), ErrorCode::kInvalidGraph) << pattern;
  for (const char* pattern :
       {"(?=a)", "(?!a)", "(?<=a)", "(a)\\1", "\\pL", "(?P=name)", "\\C", "(?m)a"})
    EXPECT_EQ(refusal(pattern), ErrorCode::kUnsupported) << pattern;
}

TEST(Regex, HostilePatternsCostLittle) {
  EXPECT_EQ(refusal("((a{1000}){1000}){1000}"), ErrorCode::kResourceLimit);
  EXPECT_EQ(refusal("((((){1000}){1000}){1000}){1000}"), ErrorCode::kResourceLimit);
  EXPECT_EQ(refusal(std::string(100000, '(')), ErrorCode::kResourceLimit);
  EXPECT_FALSE(matches("(a*)*(a*)*(a*)*b", std::string(5000, 'a')));  // exponential by backtracking
}

// Gigabytes, if each repetition had its own.
TEST(Regex, RepetitionsShareTheirClass) {
  std::string letters;
  for (char32_t letter = 0x4e00; letter < 0x8e00; letter += 2) append_utf8(letter, letters);
  EXPECT_TRUE(Regex::compile("([" + letters + "]{1000}){190}"));
  EXPECT_TRUE(matches("(?:([a-c])x(?i:[d-f])){3}", "axdbxEcxf"));
  EXPECT_FALSE(matches("(?:([a-c])x(?i:[d-f])){3}", "axdBxecxf"));
}

TEST(Utf8, GivesBackWhatItRead) {
  for (const std::string text :
       {"plain", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80", "\xFF\xC3", "\xC0\x80", "\xED\xA0\x80"}) {
    std::string back;
    for (const char32_t letter : decode_utf8(text)) append_utf8(letter, back);
    EXPECT_EQ(back, text);
  }
  EXPECT_EQ(decode_utf8("\xE2\x82\xAC").size(), 1U);
}

}  // namespace
}  // namespace ctxgen::cpu
