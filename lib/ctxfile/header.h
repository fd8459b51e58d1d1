#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob_alignment.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/ctxfile/magic.h"

namespace ctxgen {

inline constexpr std::uint64_t kPrefixBytes = 16;  // magic, major, minor, header size: never moves
inline constexpr std::uint64_t kChecksumOffset = 16;
inline constexpr std::uint64_t kChecksumBytes = 16;
inline constexpr std::uint64_t kFixedHeaderBytes = 92;
inline constexpr std::uint64_t kMaxHeaderBytes = 65536;
inline constexpr std::uint16_t kNeedsMinor = 2;  // the first minor whose header lists needs
inline constexpr std::uint64_t kNeedBytes = 4;   // group and number

inline constexpr std::uint64_t kManifestAlignment = 8;
inline constexpr std::uint64_t kDataAlignment = kLargeBlobAlignment;  // of the data section

/// The header, decoded. Offsets and sizes are in bytes, offsets from the start of the file.
struct Header {
  ContextInfo info;
  std::uint64_t header_size = 0;
  std::uint64_t file_size = 0;
  std::uint64_t manifest_offset = 0;
  std::uint64_t manifest_size = 0;
  Hash128 manifest_hash;
  std::uint64_t data_offset = 0;
  [[nodiscard]] std::uint64_t manifest_end() const { return manifest_offset + manifest_size; }
};

/// The header's bytes, checksum included. header_size is worked out here.
/// Errors  RESOURCE_LIMIT if texts and needs pass kMaxHeaderBytes.
[[nodiscard]] Result<std::vector<std::byte>> encode_header(const Header& header);

/// The header's size, before its other fields are known.
[[nodiscard]] std::uint64_t header_size_of(const ContextInfo& info);

/// Decodes and checks everything that the header alone can tell; `file` may end anywhere after it.
/// Errors  kVersionMismatch (another major), kCorruptContext.
[[nodiscard]] Result<Header> decode_header(std::span<const std::byte> file);

}  // namespace ctxgen
