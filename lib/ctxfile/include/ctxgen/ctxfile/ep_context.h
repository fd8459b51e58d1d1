#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ctxgen {

/// The ten attributes of com.microsoft::EPContext (opset 1), with the schema's defaults. Writers
/// put all of them out; readers take these values where one is absent.
struct EpContextAttributes {
  std::int64_t main_context = 1;
  std::string ep_cache_context;  // bytes: relative path of the bin, or the payload itself
  std::int64_t embed_mode = 1;
  std::string ep_sdk_version;
  std::string onnx_model_filename;
  std::string hardware_architecture;
  std::string partition_name;
  std::string source;
  std::string notes;  // "hash=<32 hex digits of the program>;ops=<n>;weights=<bytes>"
  std::int64_t max_size = 0;
};

inline constexpr const char* kEpContextOpType = "EPContext";
inline constexpr const char* kMicrosoftDomain = "com.microsoft";
/// Metadata key of the fingerprint is this plus the EP's name.
inline constexpr const char* kCompatibilityKeyPrefix = "ep_compatibility_info.";
/// Metadata key of the key of a compile (compile_key()), 32 hex digits, in every model that it writes.
inline constexpr std::string_view kCompileKeyMetadata = "ctxgen.compile_key";

}  // namespace ctxgen
