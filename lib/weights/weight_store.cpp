#include "ctxgen/weights/weight_store.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "ctxgen/base/byte_io.h"
#include "ctxgen/cache/cache_folder.h"

#include "dedup_table.h"

namespace ctxgen {
namespace {

Hash128 key_of(const PackedFrom& from) {
  Hasher hasher;
  hasher.add(from.content.high);
  hasher.add(from.content.low);
  hasher.add(as_text(from.layout));
  hasher.add(from.packer);
  return hasher.finish();
}

}  // namespace

struct WeightStore::Impl {
  explicit Impl(CacheFolder* folder) : cache(folder) {}

  /// What an earlier compile made of the same: its hash and bytes.
  std::optional<std::pair<Hash128, Blob>> find_packed(Hash128 key) const {
    const auto entry = cache->find(CacheKind::kPacked, key);
    if (!entry || entry->bytes.size() != 2 * sizeof(std::uint64_t)) return std::nullopt;
    ByteReader reader(entry->bytes, "cache");
    const Hash128 hash{.high = *reader.u64(), .low = *reader.u64()};
    auto blob = cache->find(CacheKind::kBlob, hash);
    if (!blob) return std::nullopt;
    return std::pair(hash, std::move(*blob));
  }
  Blob keep_packed(Hash128 key, Hash128 hash, const Blob& made) const {
    Blob kept = cache->add_and_map(CacheKind::kBlob, hash, made);
    ByteWriter writer;
    writer.u64(hash.high);
    writer.u64(hash.low);
    if (kept.bytes.data() != made.bytes.data())
      static_cast<void>(cache->add(CacheKind::kPacked, key, writer.buffer()));
    return kept;
  }

  std::optional<StoreId> known(Hash128 key) const {
    const std::lock_guard lock(mutex);
    const auto found = packed.find(key);
    return found == packed.end() ? std::nullopt : std::optional(found->second);
  }

  CacheFolder* cache;
  DedupTable table;
  std::atomic<std::uint64_t> bytes_packed = 0, bytes_cached = 0;
  mutable std::mutex mutex;             // guards what follows
  std::map<StoreId, Hash128> contents;  // of packed blobs
  std::map<Hash128, StoreId> packed;    // by key
};

WeightStore::WeightStore(SpillFile* spill, CacheFolder* cache)
    : impl_(std::make_unique<Impl>(cache)), spill_(spill) {}
WeightStore::~WeightStore() = default;

Result<StoreId> WeightStore::add(Blob blob) {
  const Hash128 hash = hash_bytes(blob.bytes);
  return impl_->table.add(hash, std::move(blob));
}

Result<StoreId> WeightStore::add(Hash128 hash, Blob blob) {
  return impl_->table.add(hash, std::move(blob));
}

Result<StoreId> WeightStore::add_packed(const PackedFrom& from,
                                        const std::function<Result<Blob>()>& pack) {
  const Hash128 key = key_of(from);
  const auto enter = [&](StoreId id) {
    const std::lock_guard lock(impl_->mutex);
    impl_->contents.try_emplace(id, from.content);
    impl_->packed.try_emplace(key, id);
    return id;
  };
  if (const auto known = impl_->known(key)) return impl_->table.add(hash(*known), blob(*known));
  if (impl_->cache != nullptr) {
    if (auto found = impl_->find_packed(key)) {
      impl_->bytes_cached += found->second.bytes.size();
      return enter(CTXGEN_TRY(impl_->table.add(found->first, std::move(found->second))));
    }
  }
  Blob made = CTXGEN_TRY(pack());
  impl_->bytes_packed += made.bytes.size();
  const Hash128 hash = hash_bytes(made.bytes);
  if (impl_->cache != nullptr) {
    const std::byte* const before = made.bytes.data();
    made = impl_->keep_packed(key, hash, made);
    if (made.bytes.data() != before)
      return enter(CTXGEN_TRY(impl_->table.add(hash, std::move(made))));
  }
  if (const auto known = impl_->table.find(hash, made.bytes)) return enter(*known);
  Blob kept = CTXGEN_TRY(keep_in(spill_, std::move(made)));
  return enter(CTXGEN_TRY(impl_->table.add(hash, std::move(kept))));
}

const Blob& WeightStore::blob(StoreId id) const { return impl_->table.entry(id).blob; }
Hash128 WeightStore::hash(StoreId id) const { return impl_->table.entry(id).hash; }
std::size_t WeightStore::size() const { return impl_->table.size(); }
std::uint64_t WeightStore::bytes_added() const { return impl_->table.bytes_added(); }
std::uint64_t WeightStore::bytes_stored() const { return impl_->table.bytes_stored(); }
std::uint64_t WeightStore::bytes_packed() const { return impl_->bytes_packed; }
std::uint64_t WeightStore::bytes_cached() const { return impl_->bytes_cached; }

Hash128 WeightStore::content_of(StoreId id) const {
  {
    const std::lock_guard lock(impl_->mutex);
    if (const auto known = impl_->contents.find(id); known != impl_->contents.end())
      return known->second;
  }
  return hash(id);
}

}  // namespace ctxgen
