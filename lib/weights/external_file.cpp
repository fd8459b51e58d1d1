#include "ctxgen/weights/external_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "ctxgen/base/blob_alignment.h"
#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

constexpr std::string_view kMagic = "CTXGENEX";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kVersionOffset = 8;
constexpr std::size_t kHashOffset = 16;
constexpr std::size_t kBytesHashOffset = 32;
constexpr std::size_t kHeaderEnd = 64;

static_assert(std::endian::native == std::endian::little);

void put_hash(std::byte* at, Hash128 hash) {
  std::memcpy(at, &hash.high, sizeof hash.high);
  std::memcpy(at + sizeof hash.high, &hash.low, sizeof hash.low);
}

Hash128 get_hash(const std::byte* at) {
  Hash128 hash;
  std::memcpy(&hash.high, at, sizeof hash.high);
  std::memcpy(&hash.low, at + sizeof hash.high, sizeof hash.low);
  return hash;
}

}  // namespace

Result<std::uint64_t> ExternalFileBuilder::add(Blob bytes) {
  const std::uint64_t length = bytes.bytes.size();
  const StoreId id = CTXGEN_TRY(store_.add(std::move(bytes)));
  if (id.value < offsets_.size()) return offsets_[id.value];
  const std::uint64_t alignment = blob_alignment(length);
  const auto start = checked_add(size_, alignment - 1);
  const auto end = start ? checked_add(*start / alignment * alignment, length) : std::nullopt;
  if (!end) return fail(ErrorCode::kResourceLimit, "external initializers exceed 2^64 bytes");
  offsets_.push_back(*end - length);
  size_ = *end;
  return offsets_.back();
}

Hash128 ExternalFileBuilder::hash() const {
  Hasher hasher;
  for (std::uint32_t i = 0; i < offsets_.size(); ++i) {
    const Hash128 content = store_.hash(StoreId{i});
    for (const std::uint64_t number : {offsets_[i], content.high, content.low}) hasher.add(number);
  }
  return hasher.finish();
}

Status ExternalFileBuilder::write_content(const Sink& sink) const {
  static constexpr std::array<std::byte, kLargeBlobAlignment> kZeros{};
  std::uint64_t at = kHeaderBytes;
  for (std::uint32_t i = 0; i < offsets_.size(); ++i) {
    if (offsets_[i] > at) CTXGEN_CHECK(sink(std::span(kZeros).first(offsets_[i] - at)));
    const auto bytes = store_.blob(StoreId{i}).bytes;
    if (!bytes.empty()) CTXGEN_CHECK(sink(bytes));
    at = offsets_[i] + bytes.size();
  }
  return {};
}

Status ExternalFileBuilder::write(const Sink& sink) const {
  Hasher bytes;
  CTXGEN_CHECK(write_content([&bytes](std::span<const std::byte> part) -> Status {
    bytes.add(part);
    return {};
  }));
  std::array<std::byte, kHeaderBytes> header{};
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + kVersionOffset, &kVersion, sizeof kVersion);
  put_hash(header.data() + kHashOffset, hash());
  put_hash(header.data() + kBytesHashOffset, bytes.finish());
  CTXGEN_CHECK(sink(header));
  return write_content(sink);
}

namespace {

/// The file that `entry` names, mapped, with its header as it has to be for this entry.
Result<Blob> open_external_file(const std::filesystem::path& folder, std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos)
    return fail(ErrorCode::kInvalidGraph, "metadata \"{}\" is \"{}\", expected NAME:HASH",
                kExternalFileKey, entry);
  const std::string_view name = entry.substr(0, colon), expected = entry.substr(colon + 1);
  Blob file = CTXGEN_TRY(map_file_beneath(folder, name));
  if (file.bytes.size() < kHeaderEnd || as_text(file.bytes).substr(0, kMagic.size()) != kMagic)
    return fail(ErrorCode::kInvalidGraph, "\"{}\" is not a file of external initializers of ctxgen",
                name);
  const Hash128 found = get_hash(file.bytes.data() + kHashOffset);
  if (found.hex() == expected) return file;
  return fail(
      ErrorCode::kInvalidGraph,
      "external initializers \"{}\" are {}, the model expects {}: they are from different compiles (one was interrupted, or the file is another model's): compile again",
      name, found.hex(), expected);
}

}  // namespace

Status check_external_file(const std::filesystem::path& folder, std::string_view entry) {
  const auto file = open_external_file(folder, entry);
  if (!file) return std::unexpected(file.error());
  return {};
}

Result<ExternalFileBytes> verify_external_file(const std::filesystem::path& folder,
                                               std::string_view entry) {
  const Blob file = CTXGEN_TRY(open_external_file(folder, entry));
  const std::string_view name = entry.substr(0, entry.rfind(':'));
  const auto header = file.bytes.first(kHeaderEnd), content = file.bytes.subspan(kHeaderEnd);
  std::uint64_t version = 0;
  std::memcpy(&version, header.data() + kVersionOffset, sizeof version);
  const auto rest = header.subspan(kBytesHashOffset + sizeof(Hash128));
  if (version != kVersion ||
      std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{}; }))
    return fail(ErrorCode::kCorruptContext, "the header of \"{}\" is damaged", name);
  const Hash128 expected = get_hash(header.data() + kBytesHashOffset);
  if (expected == Hash128{}) return ExternalFileBytes{content.size(), false};
  const Hash128 found = hash_bytes(content);
  if (found != expected)
    return fail(ErrorCode::kCorruptContext,
                "the {} bytes after the header of \"{}\" have hash {}, expected {}", content.size(),
                name, found.hex(), expected.hex());
  return ExternalFileBytes{content.size(), true};
}

}  // namespace ctxgen
