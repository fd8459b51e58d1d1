#include "ctxgen/registry/loaders.h"

#include <array>

#include "ctxgen/onednn/exec.h"

namespace ctxgen {

std::span<const ProgramLoader* const> default_loaders() {
  static const std::array<const ProgramLoader*, 1> loaders = {&onednn::loader()};
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
