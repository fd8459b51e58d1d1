#pragma once

#include <vector>

#include <google/protobuf/arena.h>
#include <onnx/onnx_pb.h>

#include "ctxgen/graph/graph.h"

#include "graph_parts.h"
#include "proto_convert.h"

namespace ctxgen {

/// What a skeleton is for.
enum class SkeletonUse {
  kInference,  // big tensors have type and dims only; no declared types but those of inputs
  kCheck,      // big tensors are graph inputs: the checker wants data or nothing
};

/// A model as the onnx package's tools want it, in an arena: its messages, several for each node,
/// are made without malloc and freed at once.
class Skeleton {
 public:
  Skeleton();
  [[nodiscard]] onnx::ModelProto& model() { return *model_; }
  [[nodiscard]] onnx::GraphProto& graph() { return *model_->mutable_graph(); }

 private:
  google::protobuf::Arena arena_;
  onnx::ModelProto* model_;
};

/// Fills an empty `out` with `part` of a model, without the weights. Nodes whose outputs are all
/// folded are left out, their values are initializers.
///
/// The nodes of its main graph are those of `part` in order; those of subgraphs follow
/// skeleton_nodes(graph) in the same way.
void build_skeleton(const Model& model, const GraphPart& part, SkeletonUse use, Skeleton& out,
                    const SymbolValues& values = {});

/// The nodes of a graph that its skeleton has, in order.
[[nodiscard]] std::vector<NodeId> skeleton_nodes(const Graph& graph);

}  // namespace ctxgen
