#include "flags/value_checks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <format>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "ctxgen/base/checked.h"
#include "ctxgen/base/suggest.h"

namespace ctxgen::cli {
namespace {

CLI::Validator validator(std::function<std::string(std::string&)> check) {
  return {std::move(check), ""};  // without a description, which would appear in the help
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return result;
}

/// Powers of 1024, by the unit in lower case; nothing for what is not a unit.
std::optional<unsigned> power_of(std::string unit) {
  constexpr std::string_view kUnits = "kmgtpe";
  if (unit.empty() || unit == "b") return 0;
  if (unit.ends_with("ib") && unit.size() == 3) unit.resize(1);
  if (unit.ends_with('b') && unit.size() == 2) unit.resize(1);
  const std::size_t at = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  return at == std::string_view::npos ? std::nullopt : std::optional(static_cast<unsigned>(at) + 1);
}

std::string range_text(std::uint64_t least, std::uint64_t most) {
  if (most == std::numeric_limits<std::uint64_t>::max())
    return least == 0 ? "a whole number" : std::format("a whole number from {}", least);
  return std::format("a whole number from {} to {}", least, most);
}

std::string check_number(std::string& text, std::uint64_t least, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = !text.empty() && end == text.data() + text.size();
  if (!digits || code == std::errc::invalid_argument)
    return std::format("expected {}, got \"{}\"", range_text(least, most), text);
  if (code != std::errc() || value < least || value > most)
    return std::format("expected {}, got {}", range_text(least, most), text);
  text = std::to_string(value);  // CLI11 takes a leading 0 for octal
  return "";
}

std::string check_bytes(std::string& text) {
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, code] = std::from_chars(text.data(), last, value);
  const auto power = power_of(lower(std::string_view(end, last)));
  if (code == std::errc::invalid_argument || !power)
    return std::format("expected a size in bytes, such as 1048576, 64MiB or 5GiB, got \"{}\"",
                       text);
  const auto bytes =
      code == std::errc() ? checked_mul(value, std::uint64_t{1} << (10 * *power)) : std::nullopt;
  if (!bytes) return std::format("\"{}\" is too large, expected less than 16EiB", text);
  text = std::to_string(*bytes);
  return "";
}

std::string check_tolerance(std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    return std::format("expected a finite non-negative number, such as 1e-3, got \"{}\"", text);
  return "";
}

std::string check_word(std::string& text, const std::vector<std::pair<std::string, int>>& words) {
  std::vector<std::string> names;
  for (const auto& [name, number] : words) {
    names.push_back(name);
    if (lower(text) != name) continue;
    text = std::to_string(number);
    return "";
  }
  return std::format("expected {}, got \"{}\"{}", one_of_text(names), text,
                     did_you_mean(text, names));
}

}  // namespace

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return validator([least, most](std::string& text) { return check_number(text, least, most); });
}

CLI::Validator byte_count() { return validator(check_bytes); }

CLI::Validator tolerance() { return validator(check_tolerance); }

CLI::Validator one_word_of(std::vector<std::pair<std::string, int>> words) {
  return validator(
      [words = std::move(words)](std::string& text) { return check_word(text, words); });
}

CLI::Validator not_empty() {
  return validator([](std::string& text) {
    return std::string(text.empty() ? "expected a value, got an empty one" : "");
  });
}

}  // namespace ctxgen::cli
