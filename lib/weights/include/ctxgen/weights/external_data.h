#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// A decimal number without sign, blanks or anything else around it; `what` names it in messages.
/// Errors  INVALID_GRAPH.
[[nodiscard]] Result<std::uint64_t> parse_decimal_u64(std::string_view text, std::string_view what);

/// TensorProto.external_data, decoded. Unknown keys are ignored, as the ONNX text allows.
struct ExternalDataRef {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // absent: to the end of the tensor
};

/// Decodes the key-value entries of TensorProto.external_data.
/// Errors  INVALID_GRAPH (no location, a known key twice, offset or length not decimal).
[[nodiscard]] Result<ExternalDataRef> parse_external_data(
    std::span<const std::pair<std::string_view, std::string_view>> entries,
    std::string_view tensor_name);

/// A file that was read: its path as the caller spells it, and its bytes, all of them.
struct FileRead {
  std::filesystem::path path;
  Blob bytes;
  std::string location = {};  // external data: as the tensors call it
};

/// Finds the bytes of external tensors. Files are mapped once and stay mapped while a blob lives.
///
/// Rules   location is relative and stays inside `folder` after links are resolved; offset and
///         length are decimal, inside the file, and length equals the tensor's size.
/// Errors  INVALID_GRAPH (rule broken), IO_ERROR (file missing or unreadable), RESOURCE_LIMIT (more
///         than `max_files`: a process has only so many mappings).
class ExternalDataResolver {
 public:
  static constexpr std::uint64_t kMaxFiles = 16'384;
  explicit ExternalDataResolver(std::filesystem::path folder, std::uint64_t max_files = kMaxFiles)
      : folder_(std::move(folder)), max_files_(max_files) {}

  /// Bytes that stand for the file `location`, wherever the folder is.
  void add_buffer(std::string location, Blob bytes) {
    buffers_.insert_or_assign(std::move(location), std::move(bytes));
  }
  [[nodiscard]] Result<Blob> resolve(const ExternalDataRef& ref, std::uint64_t size_bytes,
                                     std::string_view tensor_name);
  /// Every file that was opened, in order of first use, as `folder / location` (`location` alone
  /// in the current folder, "."), whole.
  [[nodiscard]] std::vector<FileRead> files() const;

 private:
  std::filesystem::path folder_;
  std::uint64_t max_files_;
  std::map<std::string, Blob, std::less<>> buffers_;  // given, looked at first
  std::map<std::string, Blob, std::less<>> mapped_;
  std::vector<std::string> order_;
};

}  // namespace ctxgen
