#pragma once

#include <cstdint>

namespace ctxgen {

// Where tensors are in files that are mapped and used in place (docs/format.md).
inline constexpr std::uint64_t kBlobAlignment = 64;
inline constexpr std::uint64_t kLargeBlobBytes = 65536;
inline constexpr std::uint64_t kLargeBlobAlignment = 4096;

[[nodiscard]] constexpr std::uint64_t blob_alignment(std::uint64_t size_bytes) {
  return size_bytes >= kLargeBlobBytes ? kLargeBlobAlignment : kBlobAlignment;
}

}  // namespace ctxgen
