#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ctxgen {

/// XXH3-128 of some bytes. Guards against accidents and serves as a key for deduplication (equal
/// keys are compared byte by byte before they are merged); it does not protect against malice.
struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  [[nodiscard]] auto operator<=>(const Hash128&) const = default;
  /// 32 lower-case hex digits, the high half first.
  [[nodiscard]] std::string hex() const;
};

[[nodiscard]] Hash128 hash_bytes(std::span<const std::byte> bytes);

/// The hash of a sequence of pieces. Text and numbers go in with their length or fixed width, so
/// that two different sequences do not collide by concatenation.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void add(std::span<const std::byte> bytes);  // the bytes alone
  void add(std::string_view text);             // length, then the bytes
  void add(std::uint64_t number);              // eight bytes, little-endian
  [[nodiscard]] Hash128 finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ctxgen
