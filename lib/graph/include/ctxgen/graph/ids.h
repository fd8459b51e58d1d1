#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace ctxgen {

/// An index into one table of a Graph. A default-constructed id refers to nothing.
template <class Tag>
struct Id {
  static constexpr std::uint32_t kNothing = UINT32_MAX;
  std::uint32_t index = kNothing;
  [[nodiscard]] constexpr bool valid() const { return index != kNothing; }
  [[nodiscard]] constexpr auto operator<=>(const Id&) const = default;
};

using ValueId = Id<struct ValueTag>;
using NodeId = Id<struct NodeTag>;
using SymbolId = Id<struct SymbolTag>;

}  // namespace ctxgen

template <class Tag>
struct std::hash<ctxgen::Id<Tag>> {
  std::size_t operator()(ctxgen::Id<Tag> id) const { return id.index; }
};
