#pragma once

#include "ctxgen/base/status.h"
#include "ctxgen/ctxfile/ep_context.h"
#include "ctxgen/graph/graph.h"

namespace ctxgen {

[[nodiscard]] bool is_ep_context(const Node& node);

/// The attributes of an EPContext node but for an embedded payload, which stays where it is; what
/// is absent has the schema's default.
/// Errors  INVALID_GRAPH (wrong kind or value).
[[nodiscard]] Result<EpContextAttributes> read_ep_context(const Node& node);

}  // namespace ctxgen
