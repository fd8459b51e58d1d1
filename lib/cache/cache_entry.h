#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/cache/cache_folder.h"

namespace ctxgen {

/// What follows the bytes of an entry: magic, version, kind, key, size and hash of the bytes,
/// hash of all that. Bytes come first, so that they are page-aligned in the map.
inline constexpr std::size_t kFooterBytes = 72;

/// `hash`: of the bytes.
[[nodiscard]] std::array<std::byte, kFooterBytes> make_footer(CacheKind kind, Hash128 key,
                                                              std::uint64_t bytes, Hash128 hash);

/// The hash of the bytes that the end of an entry gives; nothing for a file that is too short to have one.
[[nodiscard]] std::optional<Hash128> hash_in_footer(std::span<const std::byte> file);

/// The bytes of an entry; nothing if the file is not a whole entry of that kind and key. `hash_of` gives the hash of the
/// bytes, which is asked for last.
[[nodiscard]] std::optional<std::span<const std::byte>> bytes_of_entry(
    std::span<const std::byte> file, CacheKind kind, Hash128 key,
    FunctionRef<Hash128(std::span<const std::byte>)> hash_of);

/// The same for bytes that are read to be hashed.
[[nodiscard]] inline std::optional<std::span<const std::byte>> bytes_of_entry(
    std::span<const std::byte> file, CacheKind kind, Hash128 key) {
  return bytes_of_entry(file, kind, key, [](auto bytes) { return hash_bytes(bytes); });
}

}  // namespace ctxgen
