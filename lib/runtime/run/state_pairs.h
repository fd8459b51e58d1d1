#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ctxgen/graph/graph.h"
#include "ctxgen/runtime/model_state.h"
#include "ctxgen/runtime/session.h"

#include "run/executor.h"

namespace ctxgen {

/// A pair as runs need it.
struct KeptPair {
  StatePair names;
  ValueId output_id;
  ValueType type;                    // of the input
  std::optional<std::size_t> axis;   // that grows
  std::optional<PlacedCache> cache;  // appended in place
};

/// What `wanted` asks for: "past=present" names of an input and an output, "auto" all that have the usual
/// names of such pairs (docs/runtime.md) and fit each other.
/// Errors  INVALID_ARGUMENT: names that the model does not have, or twice; types that do not fit; "auto"
///         and no pair.
[[nodiscard]] Result<std::vector<StatePair>> find_state_pairs(std::span<const std::string> wanted,
                                                              std::span<const IoInfo> inputs,
                                                              std::span<const IoInfo> outputs);

/// The same pairs, with what the executor does with them.
[[nodiscard]] std::vector<KeptPair> place_pairs(std::span<const StatePair> pairs,
                                                std::span<const IoInfo> inputs,
                                                std::span<const IoInfo> outputs,
                                                const GraphExecutor& executor, const Graph& graph);

}  // namespace ctxgen
