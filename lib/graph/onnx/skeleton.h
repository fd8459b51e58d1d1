#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

#include "ctxgen/graph/graph.h"
#include "graph_parts.h"
#include "proto_convert.h"

namespace ctxgen {

/// What a skeleton is for.
enum class SkeletonUse {
  kInference,  // big tensors have type and dims only; no declared types but those of inputs
  kCheck,      // big tensors are graph inputs: the checker wants data or nothing
};

/// A model as the onnx package's tools want it, without the weights. Nodes whose outputs are all
/// folded are left out, their values are initializers.
///
/// The nodes of its main graph are those of `part` in order; those of subgraphs follow
/// skeleton_nodes(graph) in the same way.
[[nodiscard]] onnx::ModelProto build_skeleton(const Model& model, const GraphPart& part,
                                              SkeletonUse use, const SymbolValues& values = {});

/// The nodes of a graph that its skeleton has, in order.
[[nodiscard]] std::vector<NodeId> skeleton_nodes(const Graph& graph);

}  // namespace ctxgen
