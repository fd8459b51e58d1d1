#include "ctxgen/ctxfile/needs.h"

#include <algorithm>
#include <format>
#include <string>

#include "ctxgen/base/version.h"
#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen {

std::string to_string(const Need& need) {
  switch (need.group) {
    case Need::kOpKind: return std::format("op kind {}", need.number);
    case Need::kPacking: return std::format("packing {}", need.number);
    default: return std::format("feature {}.{}", need.group, need.number);
  }
}

std::string to_string(std::span<const Need> needs) {
  constexpr std::size_t kMostNamed = 16;
  std::string text;
  for (const Need& need : needs.first(std::min(needs.size(), kMostNamed)))
    text += (text.empty() ? "" : ", ") + to_string(need);
  if (needs.size() > kMostNamed) text += std::format(" and {} more", needs.size() - kMostNamed);
  return text;
}

std::vector<Need> needs_of(const ProgramLoader& loader, std::span<const Program> programs) {
  const auto* numbered = dynamic_cast<const KnowsNeeds*>(&loader);
  return numbered == nullptr ? std::vector<Need>() : numbered->needs_of(programs);
}

CompatibilityVerdict fitness_of(const ContextInfo& info, const ProgramLoader& loader, int threads) {
  const auto* numbered = dynamic_cast<const KnowsNeeds*>(&loader);
  std::vector<Need> unknown;
  for (const Need& need : info.needs)
    if (numbered == nullptr || !numbered->knows(need)) unknown.push_back(need);
  if (unknown.empty()) return loader.compatibility(info.fingerprint, threads);
  return {Compatibility::kUnsupported,
          std::format("it was written by {} and needs {}, which ctxgen {} does not know: update "
                      "ctxgen, or compile the model with this release",
                      info.producer, to_string(unknown), CTXGEN_VERSION_STRING)};
}

}  // namespace ctxgen
