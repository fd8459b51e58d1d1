#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/file.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen {

/// Metadata key of a model whose initializers are in such a file: "<file name>:<32 hex digits>".
inline constexpr std::string_view kExternalFileKey = "ctxgen.external_initializers";

/// A file of initializers next to one or several models (docs/format.md): a header of 64 bytes with
/// hashes, then the bytes of each distinct tensor, 64-byte aligned, 4096 from 64 KiB on.
class ExternalFileBuilder {
 public:
  /// Where the bytes will be in the file; equal bytes have one place.
  /// Errors  RESOURCE_LIMIT.
  [[nodiscard]] Result<std::uint64_t> add(Blob bytes);
  [[nodiscard]] bool empty() const { return offsets_.empty(); }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  /// The hash in the header. Everything must be added before.
  [[nodiscard]] Hash128 hash() const;
  using Sink = std::function<Status(std::span<const std::byte>)>;
  /// Reads the tensors twice: the header holds a hash of all bytes after it.
  [[nodiscard]] Status write(const Sink& sink) const;

 private:
  [[nodiscard]] Status write_content(const Sink& sink) const;

  WeightStore store_;
  std::vector<std::uint64_t> offsets_;  // by id
  std::uint64_t size_ = kHeaderBytes;
  static constexpr std::uint64_t kHeaderBytes = 64;
};

/// Whether the file that `entry` (the metadata's value) names is the one of the same compile, by its
/// header alone.
/// Errors  INVALID_GRAPH (another compile's, or no such file at all), IO_ERROR.
[[nodiscard]] Status check_external_file(const std::filesystem::path& folder,
                                         std::string_view entry);

/// A file of external initializers that was read whole.
struct ExternalFileBytes {
  std::uint64_t bytes = 0;  // after the header
  bool is_covered = false;  // false: an earlier version wrote it, without a hash of its bytes
};

/// The same, and every byte of the file against the hashes in its header.
/// Errors  as above; kCorruptContext: damaged.
[[nodiscard]] Result<ExternalFileBytes> verify_external_file(const std::filesystem::path& folder,
                                                             std::string_view entry);

}  // namespace ctxgen
