#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/trust/signature.h"

namespace ctxgen {

/// Who has to have signed what is loaded.
struct RequiredSignature {
  std::filesystem::path key;        // PEM: a public key or certificates; "": nothing is required
  std::filesystem::path signature;  // "": model.sig in the model's folder
};

/// The files that a signature vouches for, to be compared with the bytes that are about to be used. Their names are relative to
/// the signature's folder.
/// Threads  const use by several at once.
class SignedFiles {
 public:
  /// Errors  INVALID_ARGUMENT (key), IO_ERROR (a file that is not there), those of verify_signature().
  /// `folder`: of the model, for the default place of the signature.
  [[nodiscard]] static Result<SignedFiles> open(const RequiredSignature& required,
                                                const std::filesystem::path& folder);

  /// Compares all files that the signature lists, and keeps them mapped: for a caller who does not see all that is read. What
  /// check() is then asked about the same mappings is not hashed again.
  /// Errors  NOT_SATISFIED, IO_ERROR.
  [[nodiscard]] Status check_all();

  /// Whether `bytes` are what was signed as `path`.
  /// Errors  NOT_SATISFIED: not signed, or other bytes.
  [[nodiscard]] Status check(const std::filesystem::path& path,
                             std::span<const std::byte> bytes) const;

 private:
  std::filesystem::path signature_, root_;
  std::map<std::string, Sha256Digest, std::less<>> digests_;
  std::map<std::string, Blob, std::less<>> checked_;
};

}  // namespace ctxgen
