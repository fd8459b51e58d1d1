#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/compiler/compile.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/partition/partitioner.h"

#include "stages/import_model.h"
#include "stages/provider_list.h"

namespace ctxgen {

/// A body of an If, Loop or Scan node in which nodes are compiled.
struct PreparedBody {
  Graph* graph = nullptr;
  std::string name;                 // "If_0/then_branch", of the node and its attribute
  std::vector<std::size_t> bodies;  // those of nodes in this one, as indices
  Assignment assignment;
};

/// A graph of a model with what is compiled of it: the main graph, or a body.
struct PreparedGraph {
  const Graph* graph;
  Assignment* assignment;
  bool main;
};

/// A model after import, checks, inference, folding and partitioning.
struct PreparedModel {
  std::string name;  // base name of the input
  Model model;
  Assignment assignment;  // of the main graph
  /// With --subgraphs: every body that is written as it is read, inner ones first.
  std::vector<PreparedBody> bodies;
  std::vector<std::size_t> main_bodies;  // those of nodes in the main graph, as indices
  std::vector<std::string> warnings;
  std::size_t folded_nodes = 0;
  std::size_t removed_nodes = 0;  // by --graph-optimization
  std::vector<NodeId> rewired;    // nodes of the main graph that read other values now, ascending
  /// Per profile: dims by value, where known.
  std::vector<std::vector<std::optional<Dims>>> profile_dims;
  /// Bins of foreign EPContext nodes, to be copied to the same relative path.
  std::vector<std::pair<std::string, FileRead>> foreign_bins;
};

using StageFunction = std::function<Status(CompileStage)>;  // an error cancels

/// `spill` keeps what is folded (null: memory does).
[[nodiscard]] Result<PreparedModel> prepare_model(
    ImportedModel imported, const CompileOptions& options, const ProviderList& providers,
    const CompileTarget& target, const StageFunction& stage, SpillFile* spill = nullptr);

/// The main graph, then the bodies in order.
[[nodiscard]] std::vector<PreparedGraph> graphs_of(PreparedModel& prepared);

/// What each provider is told about compiling a graph of `prepared`, which they refer to. Dims under
/// a profile are known for values of the main graph only.
[[nodiscard]] std::vector<ProviderCompileOptions> provider_options(const PreparedModel& prepared,
                                                                   bool main,
                                                                   const CompileOptions& options,
                                                                   const ProviderList& providers);

}  // namespace ctxgen
