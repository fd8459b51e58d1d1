#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ctxgen {

/// Names a blob of one WeightStore. It means nothing in a file: there a BlobIndex does
/// (ctxgen/ctxfile/blob_ref.h).
struct StoreId {
  std::uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const StoreId&) const = default;
};

}  // namespace ctxgen

template <>
struct std::hash<ctxgen::StoreId> {
  std::size_t operator()(ctxgen::StoreId id) const { return id.value; }
};
