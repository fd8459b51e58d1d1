#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ctxgen {

/// SHA-256 of some bytes: what names things where others can write.
struct Sha256Digest {
  std::array<std::byte, 32> bytes{};
  [[nodiscard]] auto operator<=>(const Sha256Digest&) const = default;
  /// 64 lower-case hex digits.
  [[nodiscard]] std::string hex() const;
  /// Nothing if `hex` is anything else than those.
  [[nodiscard]] static std::optional<Sha256Digest> parse(std::string_view hex);
};

[[nodiscard]] Sha256Digest sha256_of(std::span<const std::byte> bytes);

/// The digest of a sequence of pieces, in the forms of Hasher (ctxgen/base/hash.h).
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  void add(std::span<const std::byte> bytes);  // the bytes alone
  void add(std::string_view text);             // length, then the bytes
  void add(std::uint64_t number);              // eight bytes, little-endian
  [[nodiscard]] Sha256Digest finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ctxgen
