#include "ctxgen/registry/loaders.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "loader_rows.h"

namespace ctxgen {

std::span<const ProgramLoader* const> default_loaders() {
  static const std::array loaders = [] {
    std::array<const ProgramLoader*, std::size(kLoaders)> all{};
    std::ranges::transform(kLoaders, all.begin(), [](const auto& loader) { return &loader(); });
    return all;
  }();
  return loaders;
}

const ProgramLoader* find_loader(std::span<const ProgramLoader* const> loaders,
                                 std::string_view source) {
  for (const ProgramLoader* loader : loaders) {
    if (loader->source() == source) return loader;
  }
  return nullptr;
}

}  // namespace ctxgen
