#include "output/target_fields.h"

#include <algorithm>
#include <format>
#include <utility>

namespace ctxgen {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

/// "format=1;onednn=3.12.1;isa=avx2" as pairs.
Fields fields_of(std::string_view fingerprint) {
  Fields fields;
  while (!fingerprint.empty()) {
    const std::string_view item = fingerprint.substr(0, fingerprint.find(';'));
    const std::size_t equals = item.find('=');
    if (equals != std::string_view::npos)
      fields.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    fingerprint.remove_prefix(std::min(item.size() + 1, fingerprint.size()));
  }
  return fields;
}

std::string value_of(const Fields& fields, std::string_view key) {
  const auto at = std::ranges::find(fields, key, &Fields::value_type::first);
  return at == fields.end() ? "none" : at->second;
}

}  // namespace

/// Files of earlier releases are for threads and caches, too.
TargetDifference difference_of(std::string_view found, std::string_view expected) {
  const Fields theirs = fields_of(found), ours = fields_of(expected);
  TargetDifference difference;
  for (const std::string key : {"format", "onednn", "isa", "threads", "cache"}) {
    const std::string a = value_of(theirs, key), b = value_of(ours, key);
    if (a == b) continue;
    const std::string_view comma = difference.found.empty() ? "" : ", ";
    difference.found += std::format("{}{} {}", comma, key, a);
    difference.expected += std::format("{}{} {}", comma, key, b);
    if (key == "isa") difference.found_isa = a;
  }
  if (difference.found.empty())
    return {std::format("\"{}\"", found), std::format("\"{}\"", expected), ""};
  return difference;
}

std::vector<std::string> instruction_sets_of(std::string_view fingerprint) {
  std::vector<std::string> isas;
  std::string list = value_of(fields_of(fingerprint), "isa");
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    isas.emplace_back(one);
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
  }
  return isas;
}

}  // namespace ctxgen
