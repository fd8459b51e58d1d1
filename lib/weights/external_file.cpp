#include "ctxgen/weights/external_file.h"

#include <array>
#include <bit>
#include <cstring>

#include "ctxgen/base/blob_alignment.h"
#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

constexpr std::string_view kMagic = "CTXGENEX";
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kHashOffset = 16;  // behind magic and version

static_assert(std::endian::native == std::endian::little);

}  // namespace

Result<std::uint64_t> ExternalFileBuilder::add(Blob bytes) {
  const std::uint64_t length = bytes.bytes.size();
  const WeightStore::Id id = CTXGEN_TRY(store_.add(std::move(bytes)));
  if (id < offsets_.size()) return offsets_[id];
  const std::uint64_t alignment = blob_alignment(length);
  const auto start = checked_add(size_, alignment - 1);
  const auto end = start ? checked_add(*start / alignment * alignment, length) : std::nullopt;
  if (!end) return fail(ErrorCode::kResourceLimit, "external initializers pass 2^64 bytes");
  offsets_.push_back(*end - length);
  size_ = *end;
  return offsets_.back();
}

Hash128 ExternalFileBuilder::hash() const {
  Hasher hasher;
  for (WeightStore::Id id = 0; id < offsets_.size(); ++id) {
    const Hash128 content = store_.hash(id);
    for (const std::uint64_t number : {offsets_[id], content.high, content.low}) hasher.add(number);
  }
  return hasher.finish();
}

Status ExternalFileBuilder::write(
    const std::function<Status(std::span<const std::byte>)>& sink) const {
  std::array<std::byte, kHeaderBytes> header{};
  const Hash128 id = hash();
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::memcpy(header.data() + kMagic.size(), &kVersion, sizeof kVersion);
  std::memcpy(header.data() + kHashOffset, &id.high, sizeof id.high);
  std::memcpy(header.data() + kHashOffset + sizeof id.high, &id.low, sizeof id.low);
  CTXGEN_CHECK(sink(header));
  static constexpr std::array<std::byte, kLargeBlobAlignment> kZeros{};
  std::uint64_t at = kHeaderBytes;
  for (WeightStore::Id blob = 0; blob < offsets_.size(); ++blob) {
    if (offsets_[blob] > at) CTXGEN_CHECK(sink(std::span(kZeros).first(offsets_[blob] - at)));
    const auto bytes = store_.blob(blob).bytes;
    if (!bytes.empty()) CTXGEN_CHECK(sink(bytes));
    at = offsets_[blob] + bytes.size();
  }
  return {};
}

Status check_external_file(const std::filesystem::path& folder, std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  if (colon == std::string_view::npos)
    return fail(ErrorCode::kInvalidGraph, "metadata \"{}\" is \"{}\", expected NAME:HASH",
                kExternalFileKey, entry);
  const std::string_view name = entry.substr(0, colon), expected = entry.substr(colon + 1);
  const Blob file = CTXGEN_TRY(map_file_beneath(folder, name));
  if (file.bytes.size() < 64 || as_text(file.bytes).substr(0, kMagic.size()) != kMagic)
    return fail(ErrorCode::kInvalidGraph, "\"{}\" is not a file of external initializers of ctxgen", name);
  Hash128 found;
  std::memcpy(&found.high, file.bytes.data() + kHashOffset, sizeof found.high);
  std::memcpy(&found.low, file.bytes.data() + kHashOffset + sizeof found.high, sizeof found.low);
  if (found.hex() == expected) return {};
  return fail(ErrorCode::kInvalidGraph,
              "external initializers \"{}\" are {}, the model expects {}: they are of different "
              "compiles (one was interrupted, or the file is another model's): compile again",
              name, found.hex(), expected);
}

}  // namespace ctxgen
