#include "output/target_fields.h"

#include <algorithm>
#include <format>
#include <utility>
#include <vector>

#include "ctxgen/ctxfile/fingerprint.h"

namespace ctxgen {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string value_of(const Fields& fields, std::string_view key) {
  const auto at = std::ranges::find(fields, key, &Fields::value_type::first);
  return at == fields.end() ? "none" : at->second;
}

}  // namespace

/// Files of earlier releases are for threads and caches, too.
TargetDifference difference_of(std::string_view found, std::string_view expected) {
  const Fields theirs = fingerprint_fields(found), ours = fingerprint_fields(expected);
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

}  // namespace ctxgen
