#include "blob_cache.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "ctxgen/base/boundary.h"
#include "ctxgen/weights/codec.h"

namespace ctxgen {

Status BlobCache::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t most = max_decompressed_bytes();
  if (bytes > most || bytes_ > most - bytes)
    return fail(ErrorCode::kResourceLimit,
                "{} bytes of weights to decompress besides {}, at most {} are allowed", bytes, bytes_,
                most);
  bytes_ += bytes;
  return {};
}

Result<Blob> BlobCache::get(std::uint32_t index, const BlobEntry& entry,
                            std::span<const std::byte> stored) {
  Slot& slot = slots_[index];
  const std::lock_guard lock(slot.mutex);
  if (slot.blob.owner != nullptr) return slot.blob;
  CTXGEN_CHECK(reserve(entry.size));
  auto blob = decompress(stored, entry.size);
  if (blob) return slot.blob = std::move(*blob);
  const std::lock_guard count(mutex_);
  bytes_ -= entry.size;
  return std::unexpected(
      with_context(std::move(blob).error(), std::format("blob {}", index)));
}

Status for_each_index(std::size_t count, int threads,
                      const std::function<Status(std::size_t)>& work) {
  std::vector<Status> results(count);
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++)
      results[i] = at_boundary("weights", [&] { return work(i); });
  };
  {
    constexpr std::size_t kMostThreads = 64;
    const auto wanted = std::min(static_cast<std::size_t>(std::max(threads, 1)), kMostThreads);
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(wanted, count); ++i) helpers.emplace_back(take);
    take();
  }
  for (Status& result : results)
    if (!result) return std::move(result);
  return {};
}

}  // namespace ctxgen
