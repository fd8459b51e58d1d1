#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/compiler/context_builder.h"

namespace ctxgen {

/// What the programs of a graph are compiled with.
struct GraphBuild {
  std::span<const Provider* const> providers;
  std::span<const ProviderCompileOptions> options;  // one per provider
  const CompileTarget& target;
  std::string_view prefix;  // of partition names
  std::size_t first_ordinal = 0;
  /// What else becomes of each partitioning before programs are made of it; null: nothing.
  std::function<void(Assignment&)> adjust = {};
};

/// Programs of all partitions of a graph. What a provider claimed and then cannot compile goes to the
/// next one: the nodes are left out and the graph is partitioned again (`assignment` changes).
[[nodiscard]] Result<std::vector<BuiltPartition>> build_graph(ContextBuilder& builder,
                                                              const Model& model,
                                                              const Graph& graph,
                                                              Assignment& assignment,
                                                              const GraphBuild& build);

}  // namespace ctxgen
