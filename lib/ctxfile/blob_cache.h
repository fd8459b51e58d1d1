#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "ctxgen/base/memory_account.h"
#include "ctxgen/ctxfile/context_file.h"

namespace ctxgen {

/// What all files of the process hold decompressed, at most default_memory_limit_bytes().
[[nodiscard]] const std::shared_ptr<MemoryAccount>& decompressed_account();

/// The compressed blobs of a file, each decompressed when it is first asked for, and kept.
///
/// Lifetime a blob may outlive the cache; until it goes it is charged to decompressed_account().
/// Threads  get() may be called from several threads; different blobs decompress side by side.
class BlobCache {
 public:
  explicit BlobCache(std::size_t count) : slots_(count) {}
  /// Errors  kCorruptContext, RESOURCE_LIMIT.
  [[nodiscard]] Result<Blob> get(BlobIndex index, const BlobEntry& entry,
                                 std::span<const std::byte> stored);

 private:
  struct Slot {
    std::mutex mutex;
    Blob blob;
  };
  std::vector<Slot> slots_;
};

/// Calls work(i) for each i below `count` on up to `threads` threads, in no order, and gives the
/// error of the smallest i that failed.
[[nodiscard]] Status for_each_index(std::size_t count, int threads,
                                    const std::function<Status(std::size_t)>& work);

}  // namespace ctxgen
