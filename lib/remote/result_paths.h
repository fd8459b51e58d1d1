#pragma once

#include <string>
#include <string_view>

#include "ctxgen/base/hash.h"
#include "ctxgen/trust/sha256.h"

namespace ctxgen {

// Where things are on the server.
[[nodiscard]] inline std::string ac_path(const Sha256Digest& action) {
  return "/ac/" + action.hex();
}
[[nodiscard]] inline std::string cas_path(const Sha256Digest& content) {
  return "/cas/" + content.hex();
}

// What the files of a result are called: the entry, which begins with the digest of its action, and blobs by the
// hash under which the local cache has them.
inline constexpr std::string_view kEntryPath = "entry";
inline constexpr std::string_view kBlobPrefix = "blob/";
[[nodiscard]] inline std::string blob_path(Hash128 hash) {
  return std::string(kBlobPrefix) + hash.hex();
}

}  // namespace ctxgen
