#include "sealed_file.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/file.h"

namespace sealed {
namespace {

using ctxgen::Blob;
using ctxgen::ErrorCode;
using ctxgen::fail;

constexpr std::size_t kNonce = 12, kTag = 16;
constexpr std::size_t kPiece = std::size_t{1} << 30U;  // a call of OpenSSL takes an int

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

const unsigned char* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::filesystem::path sealed_path(const std::filesystem::path& path) {
  std::filesystem::path sealed = path;
  return sealed += ".sealed";
}

/// Encrypts or decrypts all of `in`; whether OpenSSL did.
bool run(EVP_CIPHER_CTX* context, std::span<const std::byte> in, std::span<std::byte> out) {
  int size = 0;
  for (std::size_t at = 0; at < in.size(); at += kPiece) {
    const std::size_t count = std::min(kPiece, in.size() - at);
    if (EVP_CipherUpdate(context, reinterpret_cast<unsigned char*>(out.data() + at), &size,
                         data_of(in) + at, static_cast<int>(count)) != 1)
      return false;
  }
  return true;
}

/// Ready for the text; the name is in.
Cipher start(const Key& key, std::span<const std::byte> nonce, const std::filesystem::path& path,
             bool encrypts) {
  Cipher context(EVP_CIPHER_CTX_new());
  const std::string name = path.filename().string();
  int size = 0;
  if (context == nullptr ||
      EVP_CipherInit_ex2(context.get(), EVP_aes_256_gcm(), key.data(), data_of(nonce),
                         encrypts ? 1 : 0, nullptr) != 1 ||
      EVP_CipherUpdate(context.get(), nullptr, &size, data_of(ctxgen::as_bytes(name)),
                       static_cast<int>(name.size())) != 1)
    return nullptr;
  return context;
}

}  // namespace

ctxgen::Result<Key> read_key(const std::filesystem::path& path) {
  const auto file = ctxgen::map_file(path);
  if (!file) return std::unexpected(file.error());
  Key key;
  if (file->bytes.size() != key.size())
    return fail(ErrorCode::kInvalidArgument, "\"{}\" has {} bytes, expected {}", path.string(),
                file->bytes.size(), key.size());
  std::copy_n(data_of(file->bytes), key.size(), key.begin());
  return key;
}

ctxgen::Status seal(const std::filesystem::path& path, const Key& key) {
  const auto plain = ctxgen::map_file(path);
  if (!plain) return std::unexpected(plain.error());
  std::vector<std::byte> file(kNonce + plain->bytes.size() + kTag);
  const std::span<std::byte> all(file);
  if (RAND_bytes(reinterpret_cast<unsigned char*>(file.data()), kNonce) != 1)
    return fail(ErrorCode::kInternal, "no random numbers");
  const Cipher context = start(key, all.first(kNonce), path, /*encrypts=*/true);
  int size = 0;
  unsigned char nothing[1];
  if (context == nullptr || !run(context.get(), plain->bytes, all.subspan(kNonce)) ||
      EVP_CipherFinal_ex(context.get(), nothing, &size) != 1 ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTag, all.last(kTag).data()) != 1)
    return fail(ErrorCode::kInternal, "\"{}\" was not encrypted", path.string());
  return ctxgen::write_file(sealed_path(path), file);
}

ctxgen::Result<Blob> open(const std::filesystem::path& path, const Key& key) {
  const auto file = ctxgen::map_file(sealed_path(path));
  if (!file) return std::unexpected(file.error());
  const std::span<const std::byte> all = file->bytes;
  if (all.size() < kNonce + kTag)
    return fail(ErrorCode::kCorruptContext, "\"{}\" is too short", sealed_path(path).string());
  std::vector<std::byte> plain(all.size() - kNonce - kTag);
  std::vector<std::byte> tag(all.end() - kTag, all.end());
  const Cipher context = start(key, all.first(kNonce), path, /*encrypts=*/false);
  int size = 0;
  unsigned char nothing[1];
  if (context == nullptr || !run(context.get(), all.subspan(kNonce, plain.size()), plain) ||
      EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTag, tag.data()) != 1 ||
      EVP_CipherFinal_ex(context.get(), nothing, &size) != 1)
    return fail(ErrorCode::kCorruptContext,
                "\"{}\" is damaged, of another name, or under another key",
                sealed_path(path).string());
  return Blob::own(std::move(plain));
}

}  // namespace sealed
