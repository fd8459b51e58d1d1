#pragma once

#include <cstddef>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/cache/cache_folder.h"

#include "session_compiler.h"

namespace ctxgen::plugin {

// An entry of the cache is a context binary, followed by the numbers of the nodes of each partition as text
// ("<program> <node> <node> ...\n"), and by the hash and the size of that text in three numbers of eight bytes. Header and
// manifest of the context have checksums of their own; so all but the weights is verified whenever an entry is read.

/// Whether `cache` has it now. Requires  `made` has content.
/// Errors  those of context_size().
[[nodiscard]] Result<bool> keep_session_entry(CacheFolder& cache, Hash128 key,
                                              const SessionPrograms& made);

/// The programs of an entry, in place. `nodes`: of the model.
/// Errors  kCorruptContext, kVersionMismatch.
[[nodiscard]] Result<SessionPrograms> read_session_entry(const Blob& entry, std::size_t nodes);

}  // namespace ctxgen::plugin
