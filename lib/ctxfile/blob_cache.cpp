#include "blob_cache.h"

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/memory_limit.h"
#include "ctxgen/base/workers.h"
#include "ctxgen/weights/codec.h"

namespace ctxgen {
namespace {

/// Decompressed bytes with their charge.
struct Content {
  MemoryCharge charge{decompressed_account()};
  Blob blob;
};

Result<Blob> charged(const BlobEntry& entry, std::span<const std::byte> stored) {
  const auto content = std::make_shared<Content>();
  CTXGEN_CHECK(content->charge.resize(entry.size));
  content->blob = CTXGEN_TRY(decompress(stored, entry.size));
  return Blob{content, content->blob.bytes};
}

}  // namespace

const std::shared_ptr<MemoryAccount>& decompressed_account() {
  static const auto account = std::make_shared<MemoryAccount>(default_memory_limit_bytes());
  return account;
}

Result<Blob> BlobCache::get(BlobIndex index, const BlobEntry& entry,
                            std::span<const std::byte> stored) {
  Slot& slot = slots_[index.value];
  const std::lock_guard lock(slot.mutex);
  if (slot.blob.owner != nullptr) return slot.blob;
  auto blob = charged(entry, stored);
  if (blob) return slot.blob = std::move(*blob);
  return std::unexpected(
      with_context(std::move(blob).error(), std::format("decompressing blob {}", index.value)));
}

Status for_each_index(std::size_t count, int threads,
                      const std::function<Status(std::size_t)>& work) {
  std::vector<Status> results(count);
  StartedThreads(threads).parallel_for(std::ssize(results), [&](std::int64_t i) {
    results[i] = at_boundary("weights", [&] { return work(i); });
  });
  for (Status& result : results)
    if (!result) return std::move(result);
  return {};
}

}  // namespace ctxgen
