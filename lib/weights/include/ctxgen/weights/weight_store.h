#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/spill_file.h"
#include "ctxgen/base/status.h"
#include "ctxgen/weights/store_id.h"

namespace ctxgen {

class CacheFolder;

/// What a packed weight is made of: everything that its bytes depend on.
struct PackedFrom {
  Hash128 content;                // of the plain tensor
  std::vector<std::byte> layout;  // as PackedWeight::layout
  std::string packer;             // library, version and instruction set that pack, element type
};

/// Deduplicating store of weight bytes while compiling: equal content is kept once, across
/// partitions and models. Ids count up from 0 in order of first addition.
///
/// Threads  every member may be called from several threads; callers that need deterministic ids
///          add in a fixed order (the compiler sorts by content hash before writing anyway).
class WeightStore {
 public:
  /// `spill` takes what is packed (null: memory does), `cache` gives and takes it (null: there is
  /// none). Neither is owned.
  explicit WeightStore(SpillFile* spill = nullptr, CacheFolder* cache = nullptr);
  ~WeightStore();

  /// Bytes that are there already: in a map, or small. Equal hashes are compared byte by byte before
  /// they are merged.
  [[nodiscard]] Result<StoreId> add(Blob blob);
  /// The same where the hash is known.
  [[nodiscard]] Result<StoreId> add(Hash128 hash, Blob blob);
  /// What `pack` makes in memory, or made in an earlier compile.
  /// Errors  those of `pack`; as SpillFile::keep.
  [[nodiscard]] Result<StoreId> add_packed(const PackedFrom& from,
                                           const std::function<Result<Blob>()>& pack);
  [[nodiscard]] SpillFile* spill() const { return spill_; }

  [[nodiscard]] const Blob& blob(StoreId id) const;
  [[nodiscard]] Hash128 hash(StoreId id) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t bytes_added() const;   // as asked, with repetition
  [[nodiscard]] std::uint64_t bytes_stored() const;  // after deduplication
  [[nodiscard]] std::uint64_t bytes_packed() const;  // made by `pack`
  [[nodiscard]] std::uint64_t bytes_cached() const;  // found in the cache instead

  /// The hash of the plain tensor that a blob was packed from; of the blob itself where it is plain.
  [[nodiscard]] Hash128 content_of(StoreId id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  SpillFile* spill_;
};

}  // namespace ctxgen
