#pragma once

#include <array>
#include <filesystem>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

/// Files under AES-256-GCM: 12 random bytes, the text, a tag of 16 bytes. The file's name is sealed with it, so that a
/// file does not open as another one.
namespace sealed {

using Key = std::array<unsigned char, 32>;

/// Of a file of 32 bytes, as `openssl rand 32` writes it.
[[nodiscard]] ctxgen::Result<Key> read_key(const std::filesystem::path& path);

/// Writes `path`.sealed.
[[nodiscard]] ctxgen::Status seal(const std::filesystem::path& path, const Key& key);

/// The content of what was `path`, in memory of the process alone.
[[nodiscard]] ctxgen::Result<ctxgen::Blob> open(const std::filesystem::path& path, const Key& key);

}  // namespace sealed
