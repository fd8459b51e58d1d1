#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/trust/sha256.h"

namespace ctxgen {

/// The name that a signature has in the folder whose files it lists, unless another is given.
inline constexpr std::string_view kSignatureName = "model.sig";

struct SignedFile {
  std::string name;  // relative, with '/' between its parts; "." where a single file was signed
  Sha256Digest digest;
};

/// Files that were signed together.
struct SignedSet {
  std::string name;  // of the whole
  std::vector<SignedFile> files;
  std::vector<std::string> ignored;  // what the signer left out, relative
};

/// What signs: PEM text of a private key on P-256, P-384 or P-521, not encrypted, and, for a signature that is
/// verified by certificates, the certificate of that key and those between it and a root.
struct SigningKey {
  std::string private_key;
  std::string certificates;  // the key's own first; "": verified by the public key
};

/// A signature over `set` in the form of OpenSSF Model Signing 1.0: a Sigstore bundle (version 0.3) of an in-toto
/// statement, here without a transparency log.
///
/// Requires  names of `set` differ.
/// Errors    INVALID_ARGUMENT: no files, a key that is none of those, a certificate of another key;
///           RESOURCE_LIMIT: more files or certificates than verify_signature() takes.
[[nodiscard]] Result<std::string> sign_set(const SignedSet& set, const SigningKey& key);

/// Whether something is a signature at all, by whomever.
[[nodiscard]] bool is_signature(std::span<const std::byte> bytes);

/// The set that a signature lists, if the holder of `trusted` signed it: PEM text of one public key, or of
/// certificates of which one has signed the signer's (or is it).
///
/// Certificates have to be valid now and may be for signing code only, where they say what they are for.
/// No file is looked at: FileDigests and SignedFiles do that.
///
/// Errors  INVALID_ARGUMENT (`trusted` is neither), NOT_SATISFIED (not a signature, damaged, by another key),
///         UNSUPPORTED (hashes other than SHA-256 of whole files), RESOURCE_LIMIT (above 64 MiB).
[[nodiscard]] Result<SignedSet> verify_signature(std::span<const std::byte> signature,
                                                 std::string_view trusted);

}  // namespace ctxgen
