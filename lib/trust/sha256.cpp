#include "ctxgen/trust/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "ctxgen/base/blob.h"

namespace ctxgen {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

/// libcrypto fails here only for want of memory.
void check(int done) {
  if (done != 1) throw std::bad_alloc();
}

}  // namespace

std::string Sha256Digest::hex() const {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto number = std::to_integer<unsigned>(byte);
    text += {kDigits[number >> 4], kDigits[number & 15]};
  }
  return text;
}

std::optional<Sha256Digest> Sha256Digest::parse(std::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) {
    const std::size_t high = kDigits.find(hex[2 * i]), low = kDigits.find(hex[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    digest.bytes[i] = static_cast<std::byte>(high << 4 | low);
  }
  return digest;
}

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    if (context == nullptr) throw std::bad_alloc();
    check(EVP_DigestInit_ex(context, EVP_sha256(), nullptr));
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()));
}

void Sha256::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  add(as_bytes(text));
}

void Sha256::add(std::uint64_t number) {
  add(std::as_bytes(std::span(&number, 1)));  // x86-64 is little-endian
}

Sha256Digest Sha256::finish() const {
  const State copy;  // more may be added to this one
  check(EVP_MD_CTX_copy_ex(copy.context, state_->context));
  Sha256Digest digest;
  check(EVP_DigestFinal_ex(copy.context, reinterpret_cast<unsigned char*>(digest.bytes.data()),
                           nullptr));
  return digest;
}

Sha256Digest sha256_of(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.add(bytes);
  return sha.finish();
}

}  // namespace ctxgen
