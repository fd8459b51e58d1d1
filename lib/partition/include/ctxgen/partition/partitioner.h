#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ctxgen/partition/provider.h"

namespace ctxgen {

/// Which provider has a node, and why the others do not.
struct NodeAssignment {
  int provider = -1;    // index into the provider list; -1: none, not even cpu
  int partition = -1;   // index into that provider's partitions; -1: runs on its own (cpu)
  bool folded = false;  // all outputs are constants: stays only if something outside reads them
  std::vector<std::string> reasons;  // one per provider that was asked and did not take it
};

struct Assignment {
  std::vector<NodeAssignment> nodes;               // by NodeId
  std::vector<std::vector<Partition>> partitions;  // per provider, in topological order
  std::vector<std::string> warnings;               // refused claims
};

/// A node that a provider is not to get though it claims it: compile() could not do it.
struct Exclusion {
  std::size_t provider = 0;  // index into the provider list
  Rejection rejection;
};

/// Asks the providers in order, first come, first served; a claim that holds a taken node is
/// refused whole and reported; claims of each provider are merged into convex maximal partitions
/// (no path leaves and re-enters), glue joins where that saves a boundary, a partition that only
/// has glue is given back, and so is one that has no input or no output, or a string, 4-bit,
/// float8, sequence or optional value on its boundary (EPContext's schema has no such types).
///
/// Determinism  depends only on graph, list order and the providers' answers.
[[nodiscard]] Result<Assignment> partition_graph(const Model& model, const Graph& graph,
                                                 std::span<const Provider* const> providers,
                                                 std::span<const Exclusion> exclusions = {},
                                                 const CompileTarget& target = {});

/// Sets of nodes that are already one unit: a claim, or a partition of an earlier provider.
using NodeSet = std::vector<NodeId>;

struct ConvexResult {
  std::vector<NodeSet> partitions;      // nodes ascending; by level, which is topological
  std::vector<std::size_t> not_convex;  // indices of claims that could not be kept whole
};

/// Merges claims into as few convex partitions as their dependencies allow.
///
/// Every vertex (claim, earlier unit, single node) gets the level
///   level(v) = max over predecessors p of level(p) + (p is a claim and v is not ? 1 : 0);
/// the claims of one level form one partition. It is convex, because a path that leaves a claim
/// for something else enters a higher level, and levels never fall along a path.
///
/// Requires  claims and units are disjoint.
[[nodiscard]] ConvexResult merge_convex(const Graph& graph, std::span<const NodeSet> claims,
                                        std::span<const NodeSet> units);

}  // namespace ctxgen
