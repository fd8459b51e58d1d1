#include "ctxgen/weights/weight_store.h"

#include "dedup_table.h"

namespace ctxgen {

struct WeightStore::Impl {
  DedupTable table;
};

WeightStore::WeightStore() : impl_(std::make_unique<Impl>()) {}
WeightStore::~WeightStore() = default;

Result<WeightStore::Id> WeightStore::add(Blob blob) {
  const Hash128 hash = hash_bytes(blob.bytes);
  return impl_->table.add(hash, std::move(blob));
}

const Blob& WeightStore::blob(Id id) const { return impl_->table.entry(id).blob; }
Hash128 WeightStore::hash(Id id) const { return impl_->table.entry(id).hash; }
std::size_t WeightStore::size() const { return impl_->table.size(); }
std::uint64_t WeightStore::bytes_added() const { return impl_->table.bytes_added(); }
std::uint64_t WeightStore::bytes_stored() const { return impl_->table.bytes_stored(); }

}  // namespace ctxgen
