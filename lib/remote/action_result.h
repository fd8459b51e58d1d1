#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/trust/sha256.h"

namespace ctxgen {

/// A file of a result: its content is /cas/<digest>.
struct ResultFile {
  std::string path;
  Sha256Digest digest;
  std::uint64_t bytes = 0;
};

/// The ActionResult message of Bazel's remote execution API with these output_files: servers that
/// check what is put below /ac take it.
[[nodiscard]] std::vector<std::byte> encode_action_result(std::span<const ResultFile> files);

/// Errors  kCorruptContext. Fields that are not read here are passed over.
[[nodiscard]] Result<std::vector<ResultFile>> decode_action_result(
    std::span<const std::byte> message);

}  // namespace ctxgen
