#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"
#include "ctxgen/weights/store_id.h"

namespace ctxgen {

/// WeightStore without the hash function, so that tests can make hashes collide.
///
/// Threads  every member may be called from several threads.
class DedupTable {
 public:
  struct Entry {
    Blob blob;
    Hash128 hash;
  };

  /// The id of an entry with the same hash and the same bytes, a new one where there is none.
  [[nodiscard]] Result<StoreId> add(Hash128 hash, Blob blob);
  /// The id of that entry, counted as added, or nothing.
  [[nodiscard]] std::optional<StoreId> find(Hash128 hash, std::span<const std::byte> bytes);
  /// Entries never move and never change.
  [[nodiscard]] const Entry& entry(StoreId id) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t bytes_added() const;
  [[nodiscard]] std::uint64_t bytes_stored() const;

 private:
  [[nodiscard]] std::optional<StoreId> find_locked(std::unique_lock<std::mutex>& lock,
                                                   const std::vector<StoreId>& ids,
                                                   std::span<const std::byte> bytes);

  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
  std::map<Hash128, std::vector<StoreId>> ids_;
  std::uint64_t bytes_added_ = 0;
  std::uint64_t bytes_stored_ = 0;
};

}  // namespace ctxgen
