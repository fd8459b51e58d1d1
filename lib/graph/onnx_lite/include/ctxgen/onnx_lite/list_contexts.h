#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/ep_context.h"

namespace ctxgen {

/// An EPContext node of a model whose graph was not read.
struct ListedContext {
  std::string where;  // for messages: `node "dnnl_0" (EPContext)`
  /// source, main_context, embed_mode, partition_name and notes; ep_cache_context where embed_mode is 0.
  EpContextAttributes attributes;
  Blob payload;  // embed_mode=1
};

/// What a model says about its contexts.
struct ListedContexts {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<ListedContext> nodes;  // of the main graph and of all bodies in it
};

/// Lists them without reading tensors, names and types: its cost depends on the number of nodes, not
/// on the model's size.
///
/// Lifetime  payloads refer to `source`.
/// Errors    INVALID_GRAPH (malformed, an attribute of the wrong kind or value), RESOURCE_LIMIT
///           (bodies nested too deeply).
[[nodiscard]] Result<ListedContexts> list_contexts(const Blob& source);

}  // namespace ctxgen
