#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/status.h"
#include "ctxgen/trust/signature.h"

namespace ctxgen {

using SignatureBytes = std::vector<std::byte>;

/// A Sigstore bundle of an in-toto statement, as far as signatures by keys and certificates need it. Nothing in it is verified.
struct SignatureBundle {
  std::string key_hint;                      // SHA-256 of the PEM text of the public key; may be ""
  std::vector<SignatureBytes> certificates;  // DER, the signer's first; empty: signed by a bare key
  SignatureBytes payload;
  SignatureBytes signature;
};

/// Errors  NOT_SATISFIED (not such a bundle), RESOURCE_LIMIT.
[[nodiscard]] Result<SignatureBundle> read_bundle(std::span<const std::byte> text);
[[nodiscard]] std::string bundle_text(const SignatureBundle& bundle);

/// Errors  NOT_SATISFIED (not a statement about a model, one that contradicts itself, a name that leads out of a
///         folder), UNSUPPORTED (hashed in another way), RESOURCE_LIMIT.
[[nodiscard]] Result<SignedSet> read_statement(std::span<const std::byte> payload);
[[nodiscard]] std::string statement_text(const SignedSet& set);

/// What is signed of a payload (DSSE, version 1).
[[nodiscard]] SignatureBytes signed_bytes(std::span<const std::byte> payload);

}  // namespace ctxgen
