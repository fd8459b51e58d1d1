#pragma once

#include <compare>
#include <cstdint>
#include <variant>

#include "ctxgen/base/status.h"
#include "ctxgen/weights/store_id.h"

namespace ctxgen {

/// An index into the blob table of one context binary.
struct BlobIndex {
  std::uint32_t value = 0;
  [[nodiscard]] constexpr auto operator<=>(const BlobIndex&) const = default;
};

/// Where the bytes of a stored weight are: in the WeightStore of a compile, or in the context binary
/// that the program came from or is written to.
///
/// The program of a Provider has ids, the program of a ContextReader has indices. Whoever takes a
/// program from one side to the other replaces every reference; validate() accepts indices only, so
/// that write_context() refuses a program that still has ids.
class BlobRef {
 public:
  constexpr BlobRef(StoreId id) : place_(id) {}
  constexpr BlobRef(BlobIndex index) : place_(index) {}

  [[nodiscard]] constexpr bool is_in_store() const {
    return std::holds_alternative<StoreId>(place_);
  }
  /// Requires  is_in_store().
  [[nodiscard]] constexpr StoreId store_id() const {
    CTXGEN_ASSERT(is_in_store());
    return *std::get_if<StoreId>(&place_);
  }
  /// Requires  !is_in_store().
  [[nodiscard]] constexpr BlobIndex bin_index() const {
    CTXGEN_ASSERT(!is_in_store());
    return *std::get_if<BlobIndex>(&place_);
  }
  [[nodiscard]] constexpr bool operator==(const BlobRef&) const = default;

 private:
  std::variant<StoreId, BlobIndex> place_;
};

}  // namespace ctxgen
