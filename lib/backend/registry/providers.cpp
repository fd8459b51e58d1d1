#include "ctxgen/registry/providers.h"

#include <algorithm>

#include "ctxgen/base/suggest.h"
#include "ctxgen/cpu/provider.h"
#include "ctxgen/onednn/provider.h"
#include "ctxgen/onednn/target_costs.h"

namespace ctxgen {

namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Provider> (*make)();
  std::vector<std::string> (*target_costs)(const GraphView&, std::span<const Partition>);  // may be null
};

constexpr Row kProviders[] = {{"dnnl", onednn::make_provider, onednn::target_costs},
                              {"cpu", cpu::make_provider, nullptr}};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_in_any_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

}  // namespace

std::vector<std::string> provider_names() {
  std::vector<std::string> names;
  for (const Row& row : kProviders) names.emplace_back(row.name);
  return names;
}

Result<std::unique_ptr<Provider>> make_provider(std::string_view name) {
  std::string known;
  for (const Row& row : kProviders) {
    std::unique_ptr<Provider> provider = row.make();
    if (equal_in_any_case(name, row.name) || equal_in_any_case(name, provider->source())) {
      return provider;
    }
    known += std::format("{}{} ({})", known.empty() ? "" : ", ", row.name, provider->source());
  }
  return fail(ErrorCode::kInvalidArgument, "unknown provider \"{}\"{}; expected one of {}", name,
              did_you_mean(name, provider_names()), known);
}

std::vector<std::string> target_costs(std::string_view name, const GraphView& view,
                                      std::span<const Partition> partitions) {
  for (const Row& row : kProviders)
    if (row.name == name && row.target_costs != nullptr) return row.target_costs(view, partitions);
  return {};
}

}  // namespace ctxgen
