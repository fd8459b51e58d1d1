#include "cache_entry.h"

#include <algorithm>

#include "ctxgen/base/byte_io.h"

namespace ctxgen {
namespace {

constexpr std::string_view kMagic = "CTXGENCE";
constexpr std::uint32_t kVersion = 1;

}  // namespace

std::array<std::byte, kFooterBytes> make_footer(CacheKind kind, Hash128 key, std::uint64_t bytes,
                                                Hash128 hash) {
  ByteWriter writer;
  writer.text(kMagic);
  writer.u32(kVersion);
  writer.u32(static_cast<std::uint32_t>(kind));
  for (const std::uint64_t number : {key.high, key.low, bytes, hash.high, hash.low})
    writer.u64(number);
  const Hash128 own = hash_bytes(writer.buffer());
  writer.u64(own.high);
  writer.u64(own.low);
  std::array<std::byte, kFooterBytes> footer;
  CTXGEN_ASSERT(writer.size() == footer.size());
  std::ranges::copy(writer.buffer(), footer.begin());
  return footer;
}

std::optional<Hash128> hash_in_footer(std::span<const std::byte> file) {
  if (file.size() < kFooterBytes) return std::nullopt;
  constexpr std::size_t kFromEnd = 32;  // the hash of the bytes, then that of the footer
  Hash128 hash;
  std::memcpy(&hash.high, file.last(kFromEnd).data(), sizeof hash.high);
  std::memcpy(&hash.low, file.last(kFromEnd - sizeof hash.high).data(), sizeof hash.low);
  return hash;
}

std::optional<std::span<const std::byte>> bytes_of_entry(
    std::span<const std::byte> file, CacheKind kind, Hash128 key,
    FunctionRef<Hash128(std::span<const std::byte>)> hash_of) {
  if (file.size() < kFooterBytes) return std::nullopt;
  const auto bytes = file.first(file.size() - kFooterBytes);
  // A blob's key is its hash: a footer that differs is seen before its bytes are read.
  const auto stands = file.last(kFooterBytes);
  constexpr std::size_t kBeforeHashes = 40;  // magic, version, kind, key, size
  if (as_text(stands.first(kMagic.size())) != kMagic) return std::nullopt;
  std::uint64_t size = 0;
  std::memcpy(&size, stands.data() + kBeforeHashes - sizeof size, sizeof size);
  if (size != bytes.size()) return std::nullopt;
  if (!std::ranges::equal(stands, make_footer(kind, key, size, hash_of(bytes))))
    return std::nullopt;
  return bytes;
}

}  // namespace ctxgen
