#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <format>
#include <limits>
#include <utility>

#include "ctxgen/base/blob.h"
#include "ctxgen/trust/signature.h"

#include "openssl_handles.h"
#include "signature_bundle.h"

namespace ctxgen {
namespace {

using Store = std::unique_ptr<X509_STORE, openssl::Free<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, openssl::Free<X509_STORE_CTX_free>>;
/// Borrows its certificates.
using Chain = std::unique_ptr<STACK_OF(X509),
                              openssl::Free<[](STACK_OF(X509) * chain) { sk_X509_free(chain); }>>;

/// Leaves no errors for the next who looks.
struct ClearErrors {
  ~ClearErrors() { ERR_clear_error(); }
};

auto refused(std::string_view why) { return fail(ErrorCode::kNotSatisfied, "{}", why); }

/// One public key or certificates, as the caller trusts them.
struct Trusted {
  openssl::Key key;
  std::vector<openssl::Certificate> certificates;
};

Result<Trusted> read_trusted(std::string_view pem) {
  Trusted trusted;
  const openssl::Bio reader = openssl::reader_of(pem);
  trusted.key.reset(PEM_read_bio_PUBKEY(reader.get(), nullptr, openssl::no_password, nullptr));
  if (trusted.key != nullptr) {
    if (openssl::hash_of(*trusted.key) == nullptr)
      return fail(ErrorCode::kInvalidArgument,
                  "the public key must be one on P-256, P-384 or P-521");
    return trusted;
  }
  auto certificates = openssl::read_certificates(pem);
  if (!certificates || certificates->empty())
    return fail(ErrorCode::kInvalidArgument,
                "expected PEM text of a public key or of certificates");
  trusted.certificates = *std::move(certificates);
  return trusted;
}

/// Where a certificate says what it is for, that has to be signatures, and signatures of code.
bool may_sign(X509* certificate) {
  const std::uint32_t flags = X509_get_extension_flags(certificate);
  const bool says_usage = (flags & EXFLAG_KUSAGE) != 0, says_more = (flags & EXFLAG_XKUSAGE) != 0;
  if (says_usage && (X509_get_key_usage(certificate) & KU_DIGITAL_SIGNATURE) == 0) return false;
  if (says_more && (X509_get_extended_key_usage(certificate) & (XKU_CODE_SIGN | XKU_ANYEKU)) == 0)
    return false;
  return says_usage || says_more;
}

Result<openssl::Certificate> read_der(const SignatureBytes& bytes) {
  const auto* at = reinterpret_cast<const unsigned char*>(bytes.data());
  if (bytes.size() > std::numeric_limits<int>::max()) return refused("a certificate is too large");
  openssl::Certificate certificate(d2i_X509(nullptr, &at, static_cast<long>(bytes.size())));
  if (certificate == nullptr) return refused("a certificate in the signature is damaged");
  return certificate;
}

/// The key of the signer's certificate, if a trusted one vouches for it.
Result<openssl::Key> signer_key(const SignatureBundle& bundle, const Trusted& trusted) {
  std::vector<openssl::Certificate> given;
  for (const SignatureBytes& bytes : bundle.certificates)
    given.push_back(CTXGEN_TRY(read_der(bytes)));
  const auto store = openssl::made<Store>(X509_STORE_new());
  for (const openssl::Certificate& certificate : trusted.certificates)
    if (X509_STORE_add_cert(store.get(), certificate.get()) != 1) throw std::bad_alloc();
  // A trusted certificate need not be a root: one signer's own may be all that is trusted.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  const auto between = openssl::made<Chain>(sk_X509_new_null());
  for (std::size_t i = 1; i < given.size(); ++i)
    if (sk_X509_push(between.get(), given[i].get()) == 0) throw std::bad_alloc();
  const auto context = openssl::made<StoreContext>(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), given.front().get(), between.get()) != 1)
    throw std::bad_alloc();
  if (X509_verify_cert(context.get()) != 1)
    return refused(
        std::format("the signer's certificate is not trusted: {}",
                    X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get()))));
  if (!may_sign(given.front().get()))
    return refused("the signer's certificate is not for signing code");
  openssl::Key key(X509_get_pubkey(given.front().get()));
  if (key == nullptr || openssl::hash_of(*key) == nullptr)
    return refused("the signer's key must be one on P-256, P-384 or P-521");
  return key;
}

Status check_message(const SignatureBundle& bundle, EVP_PKEY& key) {
  const auto context = openssl::made<openssl::Digest>(EVP_MD_CTX_new());
  const SignatureBytes message = signed_bytes(bundle.payload);
  if (EVP_DigestVerifyInit(context.get(), nullptr, openssl::hash_of(key), nullptr, &key) != 1)
    throw std::bad_alloc();
  if (EVP_DigestVerify(context.get(),
                       reinterpret_cast<const unsigned char*>(bundle.signature.data()),
                       bundle.signature.size(),
                       reinterpret_cast<const unsigned char*>(message.data()), message.size()) == 1)
    return {};
  return refused("the signature does not match: signed by another key, or changed since");
}

}  // namespace

bool is_signature(std::span<const std::byte> bytes) { return read_bundle(bytes).has_value(); }

Result<SignedSet> verify_signature(std::span<const std::byte> signature, std::string_view trusted) {
  const ClearErrors clear;
  Trusted known = CTXGEN_TRY(read_trusted(trusted));
  const SignatureBundle bundle = CTXGEN_TRY(read_bundle(signature));
  if ((known.key != nullptr) != bundle.certificates.empty())
    return refused(known.key != nullptr
                       ? "signed with a certificate, to be verified by certificates"
                       : "signed with a key alone, to be verified by the public key");
  if (known.key == nullptr) known.key = CTXGEN_TRY(signer_key(bundle, known));
  if (!bundle.key_hint.empty() && bundle.key_hint != openssl::hint_of(*known.key))
    return refused("signed by another key");
  CTXGEN_CHECK(check_message(bundle, *known.key));
  return read_statement(bundle.payload);
}

}  // namespace ctxgen
