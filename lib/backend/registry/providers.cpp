#include "ctxgen/registry/providers.h"

#include <algorithm>

#include "ctxgen/base/suggest.h"

#include "provider_rows.h"

namespace ctxgen {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const ProviderRow& row : kProviders) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> default_providers() {
  std::vector<std::string> names;
  for (const ProviderRow& row : kProviders)
    if (row.make()->compiles()) names.emplace_back(row.name);
  return names;
}

Result<std::unique_ptr<Provider>> make_provider(std::string_view name) {
  std::string known;
  for (const ProviderRow& row : kProviders) {
    std::unique_ptr<Provider> provider = row.make();
    if (equal_in_any_case(name, row.name) || equal_in_any_case(name, provider->source())) {
      return provider;
    }
    known += std::format("{}{} ({})", known.empty() ? "" : ", ", row.name, provider->source());
  }
  return fail(ErrorCode::kInvalidArgument, "unknown provider \"{}\"{}; expected one of {}", name,
              did_you_mean(name, provider_names()), known);
}

}  // namespace ctxgen
