#include "ctxgen/compiler/dependency_rules.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace ctxgen {
namespace {

/// What Make or Ninja takes for something else, however it is escaped; "" where nothing is wrong.
std::string unsayable(std::string_view name, bool is_target) {
  constexpr std::string_view kSpecial = ";|&*?'\"<>`()[]";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) return "a control character";
    const bool backslash_before = i > 0 && name[i - 1] == '\\';
    if (kSpecial.contains(c) || (is_target && (c == '%' || c == '=')) || (c == '~' && i == 0))
      return std::string("\"") + c + "\"";
    if (backslash_before && (c == '#' || c == ':' || c == '$' || c == '%'))
      return std::string("\"\\") + c + "\"";
  }
  if (name.ends_with('\\') || name.ends_with(':'))
    return std::string("a last \"") + name.back() + "\"";
  return "";
}

std::string escaped(std::string_view name) {
  std::string text;
  std::size_t backslashes = 0;  // that end what is written so far
  for (const char c : name) {
    if (c == ' ')
      text.append(backslashes + 1, '\\');  // before a blank, and only there, they double
    if (c == '#' || c == ':') text += '\\';
    if (c == '$') text += '$';
    text += c;
    backslashes = c == '\\' ? backslashes + 1 : 0;
  }
  return text;
}

Result<std::string> word(const std::filesystem::path& path, bool is_target) {
  const std::string name = path.string();
  if (const std::string what = name.empty() ? "no name" : unsayable(name, is_target); !what.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        "\"{}\" cannot be written to a dependency file: it has {}, which make or ninja would misread",
        name, what);
  return escaped(name);
}

bool has_assignment(const std::string& word) { return word.contains('='); }

}  // namespace

Result<std::string> dependency_rules(std::span<const std::filesystem::path> targets,
                                     std::span<const std::filesystem::path> prerequisites,
                                     std::span<const std::filesystem::path> optional) {
  std::string text;
  for (const auto& target : targets)
    text += (text.empty() ? "" : " ") + CTXGEN_TRY(word(target, true));
  text += ":";
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (const auto& list : {prerequisites, optional})
    for (const auto& path : list) {
      std::string one = CTXGEN_TRY(word(path, false));
      if (seen.insert(one).second) words.push_back(std::move(one));
    }
  // Make reads "target: a=b" as a variable of the target, and "target: x a=b" as two files.
  std::ranges::stable_partition(words, [](const std::string& w) { return !has_assignment(w); });
  if (!words.empty() && has_assignment(words.front()))
    return fail(
        ErrorCode::kInvalidArgument,
        "\"{}\" cannot be the first name in a dependency file: make would read it as a variable",
        words.front());
  for (const std::string& one : words) text += " \\\n " + one;
  text += "\n";
  for (const auto& path : optional) {
    const std::string one = CTXGEN_TRY(word(path, false));
    // Names that would make a variable or a pattern of the rule go without one.
    if (!has_assignment(one) && !one.contains('%')) text += "\n" + one + ":\n";
  }
  return text;
}

}  // namespace ctxgen
