#include <openssl/err.h>

#include <algorithm>
#include <utility>

#include "ctxgen/base/blob.h"
#include "ctxgen/trust/signature.h"

#include "openssl_handles.h"
#include "signature_bundle.h"

namespace ctxgen {
namespace {

Result<openssl::Key> read_private_key(std::string_view pem) {
  const openssl::Bio reader = openssl::reader_of(pem);
  openssl::Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, openssl::no_password, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "the private key must be PEM text of a key that is not encrypted");
  if (openssl::hash_of(*key) == nullptr)
    return fail(ErrorCode::kInvalidArgument,
                "the private key must be one on P-256, P-384 or P-521");
  return key;
}

Status add_certificates(std::string_view pem, const EVP_PKEY& key, SignatureBundle& bundle) {
  const auto certificates = openssl::read_certificates(pem);
  if (!certificates || certificates->empty())
    return fail(ErrorCode::kInvalidArgument, "the certificates must be PEM text");
  if (X509_check_private_key(certificates->front().get(), &key) != 1) {
    ERR_clear_error();
    return fail(ErrorCode::kInvalidArgument,
                "the first certificate is not that of the private key");
  }
  for (const openssl::Certificate& certificate : *certificates) {
    unsigned char* der = nullptr;
    const int size = i2d_X509(certificate.get(), &der);
    if (size <= 0) throw std::bad_alloc();
    const auto* first = reinterpret_cast<const std::byte*>(der);
    bundle.certificates.emplace_back(first, first + size);
    OPENSSL_free(der);
  }
  return {};
}

SignatureBytes sign(std::span<const std::byte> message, EVP_PKEY& key) {
  const auto context = openssl::made<openssl::Digest>(EVP_MD_CTX_new());
  const auto* bytes = reinterpret_cast<const unsigned char*>(message.data());
  std::size_t size = 0;
  if (EVP_DigestSignInit(context.get(), nullptr, openssl::hash_of(key), nullptr, &key) != 1 ||
      EVP_DigestSign(context.get(), nullptr, &size, bytes, message.size()) != 1)
    throw std::bad_alloc();
  SignatureBytes signature(size);
  if (EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     bytes, message.size()) != 1)
    throw std::bad_alloc();
  signature.resize(size);  // DER of two numbers: often shorter than the most
  return signature;
}

}  // namespace

Result<std::string> sign_set(const SignedSet& set, const SigningKey& given) {
  if (set.files.empty()) return fail(ErrorCode::kInvalidArgument, "there is no file to sign");
  const openssl::Key key = CTXGEN_TRY(read_private_key(given.private_key));
  SignatureBundle bundle;
  if (given.certificates.empty())
    bundle.key_hint = openssl::hint_of(*key);
  else
    CTXGEN_CHECK(add_certificates(given.certificates, *key, bundle));
  const std::string statement = statement_text(set);
  // JSON holds no bytes that are not UTF-8, and other readers take no odd paths.
  const auto read = read_statement(as_bytes(statement));
  if (!read && read.error().code == ErrorCode::kResourceLimit) return std::unexpected(read.error());
  if (!read ||
      !std::ranges::equal(read->files, set.files, {}, &SignedFile::name, &SignedFile::name))
    return fail(ErrorCode::kInvalidArgument,
                "a file has a name that a signature cannot hold (UTF-8, no backslash)");
  bundle.payload.assign(as_bytes(statement).begin(), as_bytes(statement).end());
  bundle.signature = sign(signed_bytes(bundle.payload), *key);
  std::string text = bundle_text(bundle);
  if (const auto again = read_bundle(as_bytes(text)); !again)
    return fail(ErrorCode::kResourceLimit, "a signature that cannot be verified: {}",
                again.error().message);
  return text;
}

}  // namespace ctxgen
