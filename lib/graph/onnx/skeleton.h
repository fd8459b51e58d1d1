#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

#include "ctxgen/graph/graph.h"
#include "proto_convert.h"

namespace ctxgen {

/// What a skeleton is for.
enum class SkeletonUse {
  kInference,  // big tensors have type and dims only; no declared types but those of inputs
  kCheck,      // big tensors are graph inputs: the checker wants data or nothing
};

/// A model as the onnx package's tools want it, without the weights. Nodes whose outputs are all
/// folded are left out, their values are initializers.
struct Skeleton {
  onnx::ModelProto model;
  /// By index of the node in the main graph of `model`; the nodes of subgraphs follow
  /// node_ids(graph) in the same way.
  std::vector<NodeId> nodes;
};

[[nodiscard]] Skeleton build_skeleton(const Model& model, SkeletonUse use,
                                      const SymbolValues& values = {});

/// The nodes of a graph that its skeleton has, in order.
[[nodiscard]] std::vector<NodeId> skeleton_nodes(const Graph& graph);

}  // namespace ctxgen
