#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

/// Metadata key of a context model's content hash: 32 hex digits.
inline constexpr std::string_view kContentHashKey = "ctxgen.content_hash";

/// Where the bytes of an external tensor are: `size` of them, for the tensor called so.
using ExternalBytes = std::function<Result<std::span<const std::byte>>(
    const ExternalDataRef& ref, std::uint64_t size, std::string_view tensor)>;

/// What a serialised ModelProto computes, as one hash: versions, interface, nodes, attributes, the
/// contents of tensors wherever they are stored, bodies and functions. docs/format.md has the
/// canonical form; saving the model with another library does not change it. Embedded context
/// binaries, which have hashes of their own, are left out, as are names of nodes, doc strings,
/// metadata and value_info.
///
/// Memory  32 bytes for each field of the messages that are open; typed tensor data is decoded.
/// Errors  INVALID_GRAPH, UNSUPPORTED, RESOURCE_LIMIT (nesting), those of `external`.
[[nodiscard]] Result<Hash128> content_hash(std::span<const std::byte> model,
                                           const ExternalBytes& external);

/// What a file says of its content.
struct RecordedContent {
  std::string hash;  // as the file has it
  /// The file never went through another library: the entry has the form that only ctxgen writes.
  bool as_written = false;
};

/// Nothing: no ctxgen wrote the file, or an earlier version did.
/// Errors  INVALID_GRAPH (malformed).
[[nodiscard]] Result<std::optional<RecordedContent>> recorded_content(
    std::span<const std::byte> model);

}  // namespace ctxgen
