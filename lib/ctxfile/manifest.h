#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/program.h"

namespace ctxgen {

// What a manifest may take, checked by writer and reader (docs/format.md). The second bounds the
// memory that a hostile manifest of two-byte messages can ask for.
inline constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{256} << 20;
inline constexpr std::uint64_t kMaxManifestMessages = std::uint64_t{4} << 20;

struct ManifestLimits {  // tests lower them
  std::uint64_t bytes = kMaxManifestBytes;
  std::uint64_t messages = kMaxManifestMessages;
};

/// manifest.proto's Blob, in memory.
struct ManifestBlob {
  std::uint64_t offset = 0;  // from the start of the data section
  std::uint64_t size = 0;    // bytes stored
  Hash128 hash;
  std::uint32_t encoding = 0;
  std::uint64_t content_size = 0;  // where it is encoded
  [[nodiscard]] bool operator==(const ManifestBlob&) const = default;
};

/// manifest.proto's Manifest, in memory. Programs are not yet validated.
struct Manifest {
  std::vector<Program> programs;
  std::vector<Hash128> program_hashes;  // one per program
  std::vector<ManifestBlob> blobs;
};

/// Errors  RESOURCE_LIMIT (a limit above is passed).
[[nodiscard]] Result<std::vector<std::byte>> encode_manifest(std::span<const Program> programs,
                                                             std::span<const Hash128> hashes,
                                                             std::span<const ManifestBlob> blobs,
                                                             ManifestLimits limits = {});

/// Errors  kCorruptContext: not a manifest, a limit passed, a type unknown, a rank above kMaxRank,
///         a dim that is negative. Fields of newer minor versions are passed over.
[[nodiscard]] Result<Manifest> decode_manifest(std::span<const std::byte> bytes,
                                               ManifestLimits limits = {});

}  // namespace ctxgen
