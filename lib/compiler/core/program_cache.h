#pragma once

#include <map>
#include <optional>

#include "ctxgen/cache/cache_folder.h"
#include "ctxgen/ctxfile/program.h"
#include "ctxgen/weights/weight_store.h"

#include "core/program_key.h"

namespace ctxgen {

/// A program of an earlier compile with its weights.
struct CachedProgram {
  Program program;                      // its blobs are those of the store it was found for
  std::map<StoreId, Hash128> contents;  // what packed blobs were packed from
  std::uint64_t weight_bytes = 0;       // that came from the cache
};

/// Looks for the program of a key. Weights that are constants of the partition come from the model,
/// the others from the cache; they are put into `store`.
/// Errors  those of WeightStore::add. Damaged or missing parts: nothing.
[[nodiscard]] Result<std::optional<CachedProgram>> find_program(CacheFolder& cache,
                                                                const ProgramKey& key,
                                                                WeightStore& store);

/// Keeps a program whose blobs are those of `store`, and those of its weights that are not
/// constants of the partition.
void keep_program(CacheFolder& cache, const ProgramKey& key, const Program& program,
                  const WeightStore& store);

}  // namespace ctxgen
