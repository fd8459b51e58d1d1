#include "dedup_table.h"

#include <cstring>
#include <limits>

namespace ctxgen {
namespace {

bool equal_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.size() != b.size()) return false;
  return a.empty() || a.data() == b.data() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

/// The entry among `ids` that has these bytes; counts them as added. Weights are large: they are
/// compared without the lock. Entries do not move, and what another thread adds under this hash
/// meanwhile comes after the ones already compared.
std::optional<StoreId> DedupTable::find_locked(std::unique_lock<std::mutex>& lock,
                                               const std::vector<StoreId>& ids,
                                               std::span<const std::byte> bytes) {
  for (std::size_t compared = 0; compared < ids.size(); ++compared) {
    const StoreId id = ids[compared];
    const Entry& known = entries_[id.value];
    lock.unlock();
    const bool equal = equal_bytes(known.blob.bytes, bytes);
    lock.lock();
    if (!equal) continue;
    bytes_added_ += bytes.size();
    return id;
  }
  return std::nullopt;
}

std::optional<StoreId> DedupTable::find(Hash128 hash, std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_);
  const auto known = ids_.find(hash);
  return known == ids_.end() ? std::nullopt : find_locked(lock, known->second, bytes);
}

Result<StoreId> DedupTable::add(Hash128 hash, Blob blob) {
  const std::uint64_t bytes = blob.bytes.size();
  std::unique_lock lock(mutex_);
  std::vector<StoreId>& ids = ids_[hash];  // a node of the map: it does not move
  if (const auto known = find_locked(lock, ids, blob.bytes)) return *known;
  if (entries_.size() >= std::numeric_limits<std::uint32_t>::max())
    return fail(ErrorCode::kResourceLimit, "more than {} weights", entries_.size());
  const StoreId id{static_cast<std::uint32_t>(entries_.size())};
  entries_.push_back(Entry{std::move(blob), hash});
  ids.push_back(id);
  bytes_added_ += bytes;
  bytes_stored_ += bytes;
  return id;
}

const DedupTable::Entry& DedupTable::entry(StoreId id) const {
  const std::lock_guard lock(mutex_);
  CTXGEN_ASSERT(id.value < entries_.size());
  return entries_[id.value];
}

std::size_t DedupTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::uint64_t DedupTable::bytes_added() const {
  const std::lock_guard lock(mutex_);
  return bytes_added_;
}

std::uint64_t DedupTable::bytes_stored() const {
  const std::lock_guard lock(mutex_);
  return bytes_stored_;
}

}  // namespace ctxgen
