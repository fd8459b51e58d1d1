#pragma once

#include <memory>
#include <string>
#include <vector>

#include "run/executor.h"

namespace ctxgen {

/// What elements need to be read and written as C++ objects, in bytes.
[[nodiscard]] std::uintptr_t alignment_of(DataType type);

/// Kernels read elements in place, so their operands must be aligned for their type. Memory of ours
/// is; mapped files and the caller's memory may not be.
[[nodiscard]] Status align_for_kernels(RuntimeValue& value);

/// The error with the node before it, unless it is there already.
[[nodiscard]] Error at_node(Error error, const Node& node);

/// Makes the executor of one graph, and through itself those of the bodies in it.
class GraphExecutor::Builder {
 public:
  /// `partitions` ascend by (graph, node); those that a graph has are moved from.
  Builder(std::shared_ptr<const Model> model, std::span<LoadedPartition> partitions)
      : model_(std::move(model)), partitions_(partitions) {}

  [[nodiscard]] Result<std::unique_ptr<GraphExecutor>> main(const Graph& graph);

 private:
  [[nodiscard]] Result<std::unique_ptr<GraphExecutor>> body(const Graph& graph, std::string name,
                                                            const GraphExecutor& outer,
                                                            std::vector<Capture>& captures);
  [[nodiscard]] Status add_steps(GraphExecutor& executor);
  void add_partition(GraphExecutor& executor, LoadedPartition& partition);
  [[nodiscard]] Status add_node(GraphExecutor& executor, NodeId id);
  [[nodiscard]] Status add_constant(GraphExecutor& executor, const Node& node);
  [[nodiscard]] Status add_bodies(GraphExecutor& executor, Step& step);

  std::shared_ptr<const Model> model_;
  std::span<LoadedPartition> partitions_;
};

}  // namespace ctxgen
