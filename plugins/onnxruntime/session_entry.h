#pragma once

#include <cstddef>
#include <vector>

#include "ctxgen/base/blob.h"

#include "session_compiler.h"

namespace ctxgen::plugin {

// An entry of the cache is a context binary, followed by the numbers of the nodes of each partition as text
// ("<program> <node> <node> ...\n"), and by the size of that text in eight bytes.

/// Requires  `made` has content.
[[nodiscard]] Result<std::vector<std::byte>> write_session_entry(const SessionPrograms& made);

/// The programs of an entry, in place. `nodes`: of the model.
/// Errors  kCorruptContext, kVersionMismatch.
[[nodiscard]] Result<SessionPrograms> read_session_entry(Blob entry, std::size_t nodes);

}  // namespace ctxgen::plugin
