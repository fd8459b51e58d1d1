#include "ctxgen/cache/content_hashes.h"

#include <iterator>
#include <utility>

#include "ctxgen/base/checked.h"

namespace ctxgen {
namespace {

/// Smaller ones are as fast to read as to look for.
constexpr std::size_t kLeastBytes = 4096;

/// Where a content begins in a file that begins before it; nothing if it is not a part.
std::optional<FilePart> part_of(std::span<const std::byte> file,
                                std::span<const std::byte> content) {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(content.data()) -
                               reinterpret_cast<std::uintptr_t>(file.data());
  if (!range_fits(offset, content.size(), file.size())) return std::nullopt;
  return FilePart{.offset = offset, .size = content.size()};
}

}  // namespace

ContentHashes::ContentHashes(CacheFolder* cache, std::span<const OpenedFile> files) {
  if (cache == nullptr) return;
  hashes_.emplace(*cache);
  const std::int64_t now_ns = file_clock_ns();
  for (const OpenedFile& file : files)
    if (file.identity().is_settled(now_ns)) files_.emplace(file.content().bytes.data(), &file);
}

const OpenedFile* ContentHashes::file_of(std::span<const std::byte> content) const {
  const auto after = files_.upper_bound(content.data());
  if (content.size() < kLeastBytes || after == files_.begin()) return nullptr;
  return std::prev(after)->second;
}

Hash128 ContentHashes::of(std::span<const std::byte> content) {
  const OpenedFile* file = file_of(content);
  const auto part = file != nullptr ? part_of(file->content().bytes, content) : std::nullopt;
  if (!part) return hash_bytes(content);
  if (const auto known = hashes_->find(file->identity(), *part)) {
    has_remembered_ = true;
    return *known;
  }
  const Hash128 hash = hash_bytes(content);
  read_.push_back({.file = file, .part = *part, .hash = hash});
  return hash;
}

void ContentHashes::store() {
  if (!hashes_) return;
  std::map<const OpenedFile*, bool> unchanged;
  for (const Read& read : read_) {
    const auto [known, is_new] = unchanged.try_emplace(read.file);
    if (is_new) known->second = read.file->is_unchanged();
    if (known->second) hashes_->add(read.file->identity(), read.part, read.hash);
  }
  read_.clear();
  hashes_->store();
}

}  // namespace ctxgen
