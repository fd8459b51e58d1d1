#include "ctxgen/ctxfile/fingerprint.h"

#include <algorithm>
#include <cstddef>

namespace ctxgen {

std::vector<std::pair<std::string, std::string>> fingerprint_fields(std::string_view fingerprint) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!fingerprint.empty()) {
    const std::string_view item = fingerprint.substr(0, fingerprint.find(';'));
    const std::size_t equals = item.find('=');
    if (equals != std::string_view::npos)
      fields.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    fingerprint.remove_prefix(std::min(item.size() + 1, fingerprint.size()));
  }
  return fields;
}

std::vector<std::string> instruction_sets_of(std::string_view fingerprint) {
  std::vector<std::string> isas;
  for (const auto& [key, value] : fingerprint_fields(fingerprint)) {
    if (key != "isa") continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      isas.emplace_back(one);
      rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
    break;
  }
  return isas;
}

}  // namespace ctxgen
