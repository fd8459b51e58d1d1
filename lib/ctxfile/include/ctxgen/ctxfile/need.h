#pragma once

#include <compare>
#include <cstdint>

namespace ctxgen {

/// One thing that a release must know to run the programs of a context binary (docs/format.md,
/// "Needs"): a number in a group, both of the provider that wrote the file.
struct Need {
  enum Group : std::uint16_t { kOpKind = 1, kPacking = 2 };
  std::uint16_t group = 0;
  std::uint16_t number = 0;
  auto operator<=>(const Need&) const = default;
};

}  // namespace ctxgen
