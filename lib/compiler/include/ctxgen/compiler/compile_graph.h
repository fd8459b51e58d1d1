#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/base/function_ref.h"
#include "ctxgen/base/hash.h"
#include "ctxgen/compiler/context_builder.h"
#include "ctxgen/compiler/source_index.h"

namespace ctxgen {

/// How the main graph of a model whose types are known is compiled for one provider.
struct GraphCompileOptions {
  std::vector<std::pair<std::string, std::string>> provider_options;
  std::string prefix;                    // of partition names
  int jobs = 0;                          // threads that compile; 0: what the process may use
  SpillFile* spill = nullptr;            // keeps what is made (null: memory does); not owned
  CacheFolder* cache = nullptr;          // of programs and weights; not owned
  const ContextReader* added = nullptr;  // a bin whose programs come first; not owned
  const SourceIndex* sources = nullptr;  // of weights that stay in their files; not owned
};

/// Which nodes a provider takes, by partition in topological order, and why not the others.
struct ClaimedGraph {
  Assignment assignment;
  std::vector<std::vector<NodeId>> folded_nodes;  // as CompiledGraph has them
};

/// What became of them.
struct CompiledGraph {
  Assignment assignment;
  /// By partition: nodes that were computed and that only the partition reads. They vanish with it.
  std::vector<std::vector<NodeId>> folded_nodes;
  std::vector<BuiltPartition> partitions;  // in the order in which their nodes stand in the model
  std::optional<ContextContent> content;   // nothing: no program
};

/// Computes what is constant in the main graph and asks `provider` what it takes, as the command line
/// does, but for what needs the onnx package: types are those that `model` comes with and what follows from
/// them by rules of our own, operators with a body and no kernel stay what they are.
/// Where a partition could not become one node among those that were computed (they stay nodes, unless only
/// one partition reads them), what follows from shapes alone is not computed.
/// Errors  IO_ERROR of `spill`.
[[nodiscard]] Result<ClaimedGraph> claim_graph(Model& model, const Provider& provider,
                                               SpillFile* spill = nullptr);

/// Compiles what claim_graph() gave.
/// Lifetime  blobs of the content may be those of the model's initializers.
[[nodiscard]] Result<CompiledGraph> compile_graph(const Model& model, ClaimedGraph claimed,
                                                  const Provider& provider,
                                                  const GraphCompileOptions& options);

/// Everything that decides what the two make of `model` on this machine, as one hash. To be found before
/// claim_graph(). `hash_of`: of the bytes of an initializer, as hash_bytes().
/// Errors  those of ProgramLoader::fingerprint_of().
[[nodiscard]] Result<Hash128> graph_key(const Model& model, const Provider& provider,
                                        const GraphCompileOptions& options,
                                        FunctionRef<Hash128(std::span<const std::byte>)> hash_of);

}  // namespace ctxgen
