#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ctxgen/cache/cache_folder.h"

namespace ctxgen {

/// What follows the bytes of an entry: magic, version, kind, key, size and hash of the bytes,
/// hash of all that. Bytes come first, so that they are page-aligned in the map.
inline constexpr std::size_t kFooterBytes = 72;

/// `hash`: of the bytes.
[[nodiscard]] std::array<std::byte, kFooterBytes> make_footer(CacheKind kind, Hash128 key,
                                                              std::uint64_t bytes, Hash128 hash);

/// The bytes of an entry; nothing if the file is not a whole entry of that kind and key.
[[nodiscard]] std::optional<std::span<const std::byte>> bytes_of_entry(
    std::span<const std::byte> file, CacheKind kind, Hash128 key);

}  // namespace ctxgen
