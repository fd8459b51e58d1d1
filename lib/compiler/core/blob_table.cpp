#include "core/blob_table.h"

namespace ctxgen {

void BlobTable::renumber(Program& program) {
  for (ProgramWeight& weight : program.weights)
    for (PackedWeight& packed : weight.packed) {
      const StoreId id = packed.blob.store_id();
      const BlobIndex next{static_cast<std::uint32_t>(ids_.size())};
      const auto [at, added] = index_.try_emplace(id, next);
      if (added) ids_.push_back(id);
      packed.blob = at->second;
    }
}

void BlobTable::put_into(ContextContent& content) const {
  CTXGEN_ASSERT(content.blobs.empty() && content.blob_hashes.empty());
  for (const StoreId id : ids_) {
    content.blobs.push_back(store_.blob(id));
    content.blob_hashes.push_back(store_.hash(id));
  }
}

}  // namespace ctxgen
