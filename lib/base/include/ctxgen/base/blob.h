#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace ctxgen {

/// Bytes together with what keeps them alive (a mapped file, a vector).
struct Blob {
  std::shared_ptr<const void> owner;
  std::span<const std::byte> bytes;

  [[nodiscard]] static Blob own(std::vector<std::byte> bytes) {
    auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return Blob{owner, std::span<const std::byte>(*owner)};
  }
  [[nodiscard]] Blob slice(std::size_t offset, std::size_t size) const {
    return Blob{owner, bytes.subspan(offset, size)};
  }
};

[[nodiscard]] inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace ctxgen
