#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/trust/sha256.h"

/// What OpenSSL allocates, owned.
namespace ctxgen::openssl {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Digest = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;

/// What OpenSSL makes without reading anything foreign is missing only for want of memory.
template <class Handle, class T>
[[nodiscard]] Handle made(T* object) {
  if (object == nullptr) throw std::bad_alloc();
  return Handle(object);
}

/// For PEM_read_bio_*(): a password is never asked for, the caller may have no terminal.
int no_password(char* buffer, int size, int writing, void* user);

/// Certificates in PEM text, in order; what is between them is passed over. Nothing if one of them is damaged.
[[nodiscard]] std::optional<std::vector<Certificate>> read_certificates(std::string_view pem);

/// The hash that goes with an elliptic curve key, or nullptr for any other key than P-256, P-384 and P-521.
[[nodiscard]] const EVP_MD* hash_of(const EVP_PKEY& key);

/// SHA-256 of the public key's PEM text, in hex: how a signature names its key.
[[nodiscard]] std::string hint_of(const EVP_PKEY& key);

/// A view of PEM text, which has to outlive it.
[[nodiscard]] Bio reader_of(std::string_view text);

}  // namespace ctxgen::openssl
