#include "flags/arguments.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace ctxgen::cli {
namespace {

/// More combinations are surely a mistake, and each costs planning time.
constexpr std::size_t kMaxProfiles = 256;

/// Multiplies `profiles` by the alternatives of one option.
template <class Alternative, class Apply>
Status multiply(std::vector<ShapeProfile>& profiles, const std::vector<Alternative>& alternatives,
                Apply apply) {
  if (profiles.size() * alternatives.size() > kMaxProfiles)
    return fail(ErrorCode::kInvalidArgument,
                "--dim and --shape: expected at most {} combinations, got more", kMaxProfiles);
  std::vector<ShapeProfile> product;
  for (const ShapeProfile& profile : profiles)
    for (const Alternative& alternative : alternatives) {
      product.push_back(profile);
      apply(product.back(), alternative);
    }
  profiles = std::move(product);
  return {};
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<std::int64_t> parse_count(std::string_view text, std::string_view option) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 0)
    return fail(ErrorCode::kInvalidArgument, "{}: expected a whole number, got \"{}\"", option,
                text);
  return value;
}

Result<std::pair<std::string, std::string>> parse_pair(std::string_view text,
                                                       std::string_view option) {
  const std::size_t at = text.rfind('=');
  if (at == std::string_view::npos || at == 0 || at + 1 == text.size())
    return fail(ErrorCode::kInvalidArgument, "{}: expected NAME=VALUE, got \"{}\"", option, text);
  return std::pair(std::string(text.substr(0, at)), std::string(text.substr(at + 1)));
}

Result<Dims> parse_dims(std::string_view text, std::string_view option) {
  Dims dims;
  if (text == "scalar") return dims;
  for (const std::string& part : split(text, 'x')) {
    if (dims.size() == kMaxRank)
      return fail(ErrorCode::kInvalidArgument, "{}: \"{}\" has more than {} dimensions", option,
                  text, kMaxRank);
    dims.push_back(CTXGEN_TRY(parse_count(part, option)));
  }
  return dims;
}

Result<std::vector<ShapeProfile>> parse_profiles(const std::vector<std::string>& dims,
                                                 const std::vector<std::string>& shapes) {
  if (dims.empty() && shapes.empty()) return {};
  std::vector<ShapeProfile> profiles(1);
  std::set<std::string> seen;
  for (const std::string& text : dims) {
    const auto [name, list] = CTXGEN_TRY(parse_pair(text, "--dim"));
    if (!seen.insert("--dim " + name).second)
      return fail(ErrorCode::kInvalidArgument, "--dim: \"{}\" is given twice", name);
    std::vector<std::int64_t> values;
    for (const std::string& part : split(list, ','))
      values.push_back(CTXGEN_TRY(parse_count(part, "--dim")));
    CTXGEN_CHECK(multiply(profiles, values, [&](ShapeProfile& profile, std::int64_t value) {
      profile.symbols.emplace_back(name, value);
    }));
  }
  for (const std::string& text : shapes) {
    const auto [name, list] = CTXGEN_TRY(parse_pair(text, "--shape"));
    if (!seen.insert("--shape " + name).second)
      return fail(ErrorCode::kInvalidArgument, "--shape: \"{}\" is given twice", name);
    std::vector<Dims> values;
    for (const std::string& part : split(list, ','))
      values.push_back(CTXGEN_TRY(parse_dims(part, "--shape")));
    CTXGEN_CHECK(multiply(profiles, values, [&](ShapeProfile& profile, const Dims& value) {
      profile.inputs.emplace_back(name, value);
    }));
  }
  return profiles;
}

}  // namespace ctxgen::cli
