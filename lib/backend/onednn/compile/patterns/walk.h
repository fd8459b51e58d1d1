#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "../node_view.h"

namespace ctxgen::onednn {

/// Steps through a pattern's nodes and collects them. Interior values must have one consumer and
/// not leave the graph: nothing else may need what the fused op no longer computes.
class PatternWalk {
 public:
  explicit PatternWalk(const GraphView& view) : view_(&view) {}

  [[nodiscard]] const Graph& graph() const { return view_->graph(); }
  [[nodiscard]] const Node& node(NodeId id) const { return graph().node(id); }
  void take(NodeId id) { nodes_.push_back(id); }

  /// The producer of `value` if it is an ONNX `op_type` node, else an invalid id.
  [[nodiscard]] NodeId producer(ValueId value, std::string_view op_type) const;
  /// The one consumer of `value`, an `op_type` node ("" for any), else an invalid id.
  [[nodiscard]] NodeId only_consumer(ValueId value, std::string_view op_type) const;
  /// The input of a two-operand node that is not `known`; invalid if both are or none is.
  [[nodiscard]] ValueId other(NodeId id, ValueId known) const;
  /// The value of a constant float32 scalar (rank 0, or 1 with one element).
  [[nodiscard]] std::optional<float> scalar(ValueId value) const;
  /// The operand of a commutative or dividing node that is not the scalar `expected`
  /// (5e-4 relative: exporters round); for "Div" the scalar must be the divisor.
  [[nodiscard]] ValueId without_scalar(NodeId id, double expected) const;
  /// Whether `value` is a float32 tensor of known rank that is not constant.
  [[nodiscard]] bool is_data(ValueId value) const;

  /// The collected nodes, ascending, each once.
  [[nodiscard]] std::vector<NodeId> nodes() const;

 private:
  const GraphView* view_;
  std::vector<NodeId> nodes_;
};

}  // namespace ctxgen::onednn
