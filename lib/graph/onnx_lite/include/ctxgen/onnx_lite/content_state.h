#pragma once

#include <span>
#include <string>

#include "ctxgen/base/status.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/weights/external_data.h"

namespace ctxgen {

/// How what stays in a model (nodes, initializers, interface, external data) compares with what compile
/// wrote, by the content hash in its metadata.
enum class ContentState {
  kIntact,      // the same, in this file or another one
  kNotCovered,  // the file has no hash: no ctxgen wrote it, or an earlier version did
  kChanged,     // another content, in a file that another tool saved
  kDamaged,     // another content, in the very file that compile wrote, or a damaged external file
};

struct ContentCheck {
  ContentState state = ContentState::kIntact;
  std::string detail;
};

/// Computes the hash of a model that was read, and compares.
///
/// In  files: the external data that was read with it (ReadModelOptions::external_files).
/// Errors  INVALID_GRAPH, UNSUPPORTED, RESOURCE_LIMIT of the walk.
[[nodiscard]] Result<ContentCheck> check_content(const Model& model,
                                                 std::span<const FileRead> files);

}  // namespace ctxgen
