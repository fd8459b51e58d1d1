#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ctxgen/base/tensor.h"
#include "ctxgen/cpu/kernel.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/graph/graph.h"
#include "tensor_pool.h"

namespace ctxgen {

/// A partition ready to run, in place of one EPContext node.
struct LoadedPartition {
  NodeId node;
  std::unique_ptr<Executable> executable;
  std::vector<ValueId> inputs;   // in the executable's order
  std::vector<ValueId> outputs;  // likewise
};

/// A value given to a graph from outside: an input, or one that a subgraph captures.
struct Binding {
  ValueId value;
  Tensor tensor;
};

/// What one run of a graph needs of its own.
class RunState {
 public:
  std::vector<Tensor> values;  // by ValueId
  std::vector<std::unique_ptr<ExecutionState>> executions;  // by step; made on first use
  std::vector<TensorView> views;                            // scratch: inputs of a partition
  std::vector<const Tensor*> operands;                      // scratch: inputs of a kernel
  std::vector<std::int64_t> symbols;                        // scratch: sizes seen per symbol
  TensorPool pool;
};

/// Runs the nodes of one graph in order: partitions by their executables, the others by CPU kernels.
/// One executor per graph; those of subgraphs get what they capture as bindings.
///
/// Threads  run() is const and may be called from several threads, each with its own state.
class GraphExecutor {
 public:
  /// Errors  UNSUPPORTED naming a node that no kernel implements, its domain and opset.
  [[nodiscard]] static Result<std::unique_ptr<GraphExecutor>> build(
      std::shared_ptr<const Model> model, const Graph& graph,
      std::vector<LoadedPartition> partitions);

  [[nodiscard]] std::unique_ptr<RunState> make_state() const;
  /// Outputs in the graph's order. Intermediate tensors are given up after their last use; `state`
  /// holds no tensor afterwards, whether the run succeeds or not.
  [[nodiscard]] Result<std::vector<Tensor>> run(RunState& state, std::span<const Binding> bindings,
                                                std::vector<OpTiming>* timings) const;
  [[nodiscard]] std::size_t step_count() const { return steps_.size(); }

 private:
  struct Step {
    NodeId node;
    std::unique_ptr<cpu::Kernel> kernel;     // either this
    std::unique_ptr<Executable> executable;  // or this
    std::vector<ValueId> inputs;             // invalid: absent
    std::vector<ValueId> outputs;            // invalid: nobody wants it
    std::vector<ValueId> releases;           // values whose last use this step is
  };
  class KernelRun;
  class PartitionOutputs;

  [[nodiscard]] Status add_partition(LoadedPartition partition);
  [[nodiscard]] Status add_node(NodeId id);
  [[nodiscard]] Status prepare_constants();
  void plan_releases();
  [[nodiscard]] bool wanted(ValueId id) const;
  [[nodiscard]] const Tensor& value(const RunState& state, ValueId id) const;
  [[nodiscard]] Status run_kernel(const Step& step, RunState& state) const;
  [[nodiscard]] Status run_partition(std::size_t index, RunState& state,
                                     std::vector<OpTiming>* timings) const;
  [[nodiscard]] Status run_steps(RunState& state, std::vector<OpTiming>* timings) const;
  [[nodiscard]] Result<std::vector<Tensor>> collect(RunState& state) const;

  std::shared_ptr<const Model> model_;  // owns the graph
  const Graph* graph_ = nullptr;
  std::vector<Step> steps_;
  std::vector<Tensor> constants_;  // by ValueId: initializers (defaults of inputs too), Constants
};

}  // namespace ctxgen
