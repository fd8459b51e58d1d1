#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "ctxgen/ctxfile/context_file.h"
#include "ctxgen/weights/weight_store.h"

namespace ctxgen {

/// The blob table of a context binary to be written: blobs of one store, in order of first reference.
class BlobTable {
 public:
  /// `store` must outlive the table.
  explicit BlobTable(const WeightStore& store) : store_(store) {}

  /// Replaces the program's ids by indices into the table, which takes in what it lacks.
  void renumber(Program& program);
  /// The blobs by their indices.
  [[nodiscard]] std::span<const StoreId> ids() const { return ids_; }
  /// Appends every blob and its hash to those of `content`, which has none yet.
  void put_into(ContextContent& content) const;

 private:
  const WeightStore& store_;
  std::vector<StoreId> ids_;
  std::unordered_map<StoreId, BlobIndex> index_;
};

}  // namespace ctxgen
