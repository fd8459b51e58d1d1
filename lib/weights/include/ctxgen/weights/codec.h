#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

// Weight bytes in fewer bytes: one zstd frame with its content's size and checksum.

inline constexpr int kMinCompressLevel = 1;
inline constexpr int kMaxCompressLevel = 19;  // above, decompressing needs more memory, too
inline constexpr int kDefaultCompressLevel = 9;

/// Determinism  depends on bytes, level and zstd's version only.
/// Errors       RESOURCE_LIMIT, INTERNAL.
[[nodiscard]] Result<std::vector<std::byte>> compress(std::span<const std::byte> bytes, int level);

/// The `size` bytes that `frame` holds, 64-byte aligned. Nothing is allocated before the frame says
/// the same size and is large enough to hold as much.
/// Errors  kCorruptContext, RESOURCE_LIMIT.
[[nodiscard]] Result<Blob> decompress(std::span<const std::byte> frame, std::uint64_t size);

}  // namespace ctxgen
