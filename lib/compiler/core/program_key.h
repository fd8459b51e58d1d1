#pragma once

#include <map>
#include <unordered_map>

#include "ctxgen/base/blob.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/partition/provider.h"

namespace ctxgen {

/// Of one graph, which must not change: what the keys of its partitions have in common.
struct GraphHashes {
  /// Everything of the graph that a provider can see, but the contents of its larger constants: nodes,
  /// attributes, names, types with symbolic dims, who reads what.
  Hash128 structure;
  std::unordered_map<ValueId, Hash128> constants;  // of those that were asked for
};
[[nodiscard]] GraphHashes hash_structure(const Model& model, const Graph& graph);

/// What decides the program that a provider makes of a partition.
struct ProgramKey {
  Hash128 key;
  std::map<Hash128, Blob> constants;  // of the partition, by content: weights that may stay plain
};

/// `hashes`: of the view's graph. In the key too: the contents of all constants that the partition
/// reads, directly or through folded nodes; the provider, its options, the shapes to plan for; the
/// target (`fingerprint`) and the build of ctxgen.
[[nodiscard]] ProgramKey key_of_partition(const GraphView& view, const Partition& partition,
                                          const Provider& provider,
                                          const ProviderCompileOptions& options,
                                          std::string_view fingerprint, GraphHashes& hashes);

}  // namespace ctxgen
