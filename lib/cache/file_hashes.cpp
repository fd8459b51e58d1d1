#include "ctxgen/cache/file_hashes.h"

#include <array>
#include <fstream>
#include <string>
#include <utility>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

constexpr std::size_t kBytesEach = 32;     // offset, size, both halves of the hash
constexpr std::size_t kMaxParts = 65'536;  // of a file; further ones are read each time

using Parts = std::map<FilePart, Hash128>;

/// Of the system, different after each start; empty: not known.
const std::string& start_id() {
  static const std::string id = [] {
    std::string line;
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::getline(file, line);
    return line;
  }();
  return id;
}

std::array<std::uint64_t, 5> fields_of(const FileIdentity& file) {
  return {file.device, file.inode, file.size, static_cast<std::uint64_t>(file.modified_ns),
          static_cast<std::uint64_t>(file.changed_ns)};
}

std::vector<std::byte> text_of(const FileIdentity& file, const Parts& parts) {
  ByteWriter writer;
  for (const std::uint64_t field : fields_of(file)) writer.u64(field);
  for (const auto& [part, hash] : parts)
    for (const std::uint64_t number : {part.offset, part.size, hash.high, hash.low})
      writer.u64(number);
  return writer.release();
}

/// Errors  kCorruptContext: not what text_of() makes for that file.
Result<Parts> parts_of(const FileIdentity& file, std::span<const std::byte> text) {
  constexpr std::string_view kWhat = "hashes of a file";
  ByteReader reader(text, kWhat);
  for (const std::uint64_t field : fields_of(file))
    if (CTXGEN_TRY(reader.u64()) != field)
      return fail(ErrorCode::kCorruptContext, "{}: of another file", kWhat);
  Parts parts;
  while (reader.remaining() != 0) {
    const FilePart part{.offset = CTXGEN_TRY(reader.u64()), .size = CTXGEN_TRY(reader.u64())};
    const Hash128 hash{.high = CTXGEN_TRY(reader.u64()), .low = CTXGEN_TRY(reader.u64())};
    const bool follows = parts.empty() || parts.rbegin()->first < part;
    if (!follows || !range_fits(part.offset, part.size, file.size) || parts.size() == kMaxParts)
      return fail(ErrorCode::kCorruptContext, "{}: parts that cannot be", kWhat);
    parts.emplace_hint(parts.end(), part, hash);
  }
  return parts;
}

}  // namespace

Hash128 FileHashes::key_of(const FileIdentity& file) {
  Hasher hasher;
  hasher.add(std::string_view("ctxgen file"));
  hasher.add(std::string_view(start_id()));
  for (const std::uint64_t field : fields_of(file)) hasher.add(field);
  return hasher.finish();
}

FileHashes::Known& FileHashes::known(const FileIdentity& file) {
  const auto [place, is_new] = files_.try_emplace(file);
  if (!is_new || start_id().empty()) return place->second;
  if (const auto entry = cache_.find(CacheKind::kHashes, key_of(file)))
    if (auto parts = parts_of(file, entry->bytes)) place->second.parts = *std::move(parts);
  return place->second;
}

std::optional<Hash128> FileHashes::find(const FileIdentity& file, FilePart part) {
  const Parts& parts = known(file).parts;
  const auto found = parts.find(part);
  return found == parts.end() ? std::nullopt : std::optional(found->second);
}

void FileHashes::add(const FileIdentity& file, FilePart part, Hash128 hash) {
  Known& of_file = known(file);
  if (of_file.parts.size() == kMaxParts) return;
  of_file.parts.insert_or_assign(part, hash);
  of_file.is_changed = true;
}

void FileHashes::store() {
  if (start_id().empty()) return;
  for (auto& [file, known] : files_)
    if (std::exchange(known.is_changed, false))
      cache_.add(CacheKind::kHashes, key_of(file), text_of(file, known.parts));
}

}  // namespace ctxgen
