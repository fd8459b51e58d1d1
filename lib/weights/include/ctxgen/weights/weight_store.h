#pragma once

#include <cstdint>
#include <memory>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/base/status.h"

namespace ctxgen {

/// Deduplicating store of weight bytes while compiling: equal content is kept once, across
/// partitions and models. Ids count up from 0 in order of first addition.
///
/// Threads  add() may be called from several threads; callers that need deterministic ids add in
///          a fixed order (the compiler sorts by content hash before writing anyway).
class WeightStore {
 public:
  using Id = std::uint32_t;
  WeightStore();
  ~WeightStore();

  /// Equal hashes are compared byte by byte before they are merged.
  [[nodiscard]] Result<Id> add(Blob blob);
  [[nodiscard]] const Blob& blob(Id id) const;
  [[nodiscard]] Hash128 hash(Id id) const;
  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] std::uint64_t bytes_added() const;   // as asked, with repetition
  [[nodiscard]] std::uint64_t bytes_stored() const;  // after deduplication

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ctxgen
