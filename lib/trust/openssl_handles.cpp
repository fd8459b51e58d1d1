#include "openssl_handles.h"

#include <openssl/err.h>

#include <limits>

#include "ctxgen/base/blob.h"

namespace ctxgen::openssl {

int no_password(char*, int, int, void*) { return -1; }

Bio reader_of(std::string_view text) {
  const std::size_t size = std::min<std::size_t>(text.size(), std::numeric_limits<int>::max());
  return made<Bio>(BIO_new_mem_buf(text.data(), static_cast<int>(size)));
}

std::optional<std::vector<Certificate>> read_certificates(std::string_view pem) {
  const Bio reader = reader_of(pem);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, no_password, nullptr))
    certificates.emplace_back(one);
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) return std::nullopt;
  return certificates;
}

const EVP_MD* hash_of(const EVP_PKEY& key) {
  char curve[64] = {};
  if (!EVP_PKEY_is_a(&key, "EC") ||
      EVP_PKEY_get_group_name(&key, curve, sizeof curve, nullptr) != 1)
    return nullptr;
  const std::string_view name = curve;
  if (name == "prime256v1") return EVP_sha256();
  if (name == "secp384r1") return EVP_sha384();
  if (name == "secp521r1") return EVP_sha512();
  return nullptr;
}

std::string hint_of(const EVP_PKEY& key) {
  const Bio writer = made<Bio>(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PUBKEY(writer.get(), &key) != 1) throw std::bad_alloc();
  char* text = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &text);
  return sha256_of(as_bytes({text, static_cast<std::size_t>(size)})).hex();
}

}  // namespace ctxgen::openssl
