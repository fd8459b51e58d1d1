#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ctxgen/base/runtime_value.h"
#include "ctxgen/cpu/kernel.h"
#include "ctxgen/ctxfile/executable.h"
#include "ctxgen/graph/graph.h"
#include "ctxgen/runtime/session.h"

#include "load/inner_values.h"
#include "run/tensor_pool.h"

namespace ctxgen {

/// A partition ready to run, in place of one EPContext node.
struct LoadedPartition {
  const Graph* graph = nullptr;  // the main graph or a body
  NodeId node;
  std::unique_ptr<Executable> executable;
  std::vector<ValueId> inputs;         // in the executable's order
  std::vector<ValueId> outputs;        // likewise
  std::vector<InnerValue> inner = {};  // further outputs, which the graph does not have
};

/// A value given to the main graph from outside.
struct Binding {
  ValueId id;
  RuntimeValue value;
};

/// What a run of the main graph hands on to the bodies.
struct RunControl {
  std::vector<OpTiming>* timings = nullptr;
  const std::atomic<bool>* stop = nullptr;  // true: end with CANCELLED before the next node
  const ValueObserver* observer = nullptr;
};

/// Where a caller wants an output to be written.
struct OutputMemory {
  std::byte* data = nullptr;  // nullptr: the executor chooses
  std::uint64_t size_bytes = 0;
};

/// A cache of a partition's in the main graph: Executable::caches()[cache] of a step.
struct PlacedCache {
  std::size_t step = 0, cache = 0;
  std::size_t axis = 0;   // that grows
  std::size_t op = 0;     // of the step: its caches are kept together
  std::size_t of_op = 0;  // how many those are
};

/// Keeps caches of partitions from run to run, in memory of its own.
class CacheKeeper {
 public:
  virtual ~CacheKeeper() = default;
  /// As OutputAllocator::keep().
  [[nodiscard]] virtual Result<std::optional<CachePlace>> keep(std::size_t step, std::size_t cache,
                                                               const Dims& dims) = 0;
  /// Whether it keeps this value, which then has none after its step.
  [[nodiscard]] virtual bool keeps(ValueId output) const = 0;
};

/// What one run of a graph needs of its own.
class RunState {
 public:
  std::vector<RuntimeValue> values;                         // by ValueId
  std::vector<std::unique_ptr<ExecutionState>> executions;  // by step; made on first use
  std::vector<std::unique_ptr<RunState>> bodies;            // by body; likewise
  std::vector<TensorView> views;                            // scratch: inputs of a partition
  std::vector<std::uint8_t> constant_views;                 // scratch: which of them are constants
  std::vector<const RuntimeValue*> operands;                // scratch: inputs of a kernel
  std::vector<RuntimeValue> inner;              // scratch: of Step::inner; empty: unseen
  std::vector<std::int64_t> symbols;            // scratch: sizes seen per symbol
  std::shared_ptr<TensorPool> pool;             // shared with the bodies
  std::span<const OutputMemory> output_memory;  // by output; empty: none is given
  CacheKeeper* keeper = nullptr;                // of the main graph; null: none is kept

  /// Of partitions here and in bodies; the pool counts its own.
  [[nodiscard]] std::uint64_t allocated_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& execution : executions)
      if (execution != nullptr) bytes += execution->allocated_bytes();
    for (const auto& body : bodies)
      if (body != nullptr) bytes += body->allocated_bytes();
    return bytes;
  }
};

/// Runs the nodes of one graph in order: partitions by their executables, the others by CPU kernels.
/// There is one executor per graph; a step whose node has subgraphs owns those of its bodies, and
/// binds what they capture once before its kernel runs them, however often that is.
///
/// Threads  run() is const and may be called from several threads, each with its own state.
class GraphExecutor {
 public:
  /// `partitions`: of the graph and of all bodies in it.
  /// Errors  UNSUPPORTED naming a node that no kernel implements, its domain and opset.
  [[nodiscard]] static Result<std::unique_ptr<GraphExecutor>> build(
      std::shared_ptr<const Model> model, const Graph& graph,
      std::vector<LoadedPartition> partitions);

  [[nodiscard]] std::unique_ptr<RunState> make_state(std::shared_ptr<TensorPool> pool) const;
  /// Outputs in the graph's order. Intermediate tensors are given up after their last use; `state`
  /// holds no value afterwards, whether the run succeeds or not.
  [[nodiscard]] Result<std::vector<RuntimeValue>> run(RunState& state,
                                                      std::span<const Binding> bindings,
                                                      const RunControl& control) const;
  /// The same for a caller that keeps its outputs in `outputs` and ends the pool's run itself: what
  /// it hands back to the pool serves its next run. Outputs go where state.output_memory says.
  /// Errors  INVALID_ARGUMENT for an output that does not fit into its memory.
  [[nodiscard]] Status run_into(RunState& state, std::span<const Binding> bindings,
                                const RunControl& control,
                                std::vector<RuntimeValue>& outputs) const;
  /// Where an input of the graph is a cache whose output is `output`, that nothing else reads or writes.
  [[nodiscard]] std::optional<PlacedCache> find_cache(ValueId input, ValueId output) const;
  /// Whether find_cache() finds the graph's output `output` for this input.
  [[nodiscard]] bool has_cache(ValueId input, std::size_t output) const {
    return find_cache(input, graph_->outputs[output]).has_value();
  }
  /// Steps of this graph and of the bodies in it.
  [[nodiscard]] std::size_t step_count() const;
  [[nodiscard]] PlanStatistics plan_statistics() const;
  /// The first node of this graph or a body that a CPU kernel runs; nullptr: there is none.
  [[nodiscard]] const Node* first_cpu_node() const;
  /// Calls `see` for every constant that runs read, those of bodies too.
  void see_constants(const std::function<void(const RuntimeValue&)>& see) const;

 private:
  struct Capture {
    ValueId outer, inner;
  };
  struct Body {
    const Graph* graph = nullptr;
    std::unique_ptr<GraphExecutor> executor;
    std::vector<Capture> captures;  // those that are not constants
    std::size_t index = 0;          // into RunState::bodies
  };
  struct Step {
    NodeId node;
    std::unique_ptr<cpu::Kernel> kernel;     // either this
    std::unique_ptr<Executable> executable;  // or this
    std::vector<ValueId> inputs;             // invalid: absent
    std::vector<ValueId> outputs;            // invalid: not wanted
    std::vector<InnerValue> inner;           // of a partition, after its outputs
    std::vector<ValueId> releases;           // values whose last use this step is
    std::vector<Body> bodies;                // one per attribute that holds a graph
  };
  class Builder;
  class KernelRun;
  class PartitionOutputs;

  [[nodiscard]] std::vector<ValueId> same_values(ValueId input) const;
  [[nodiscard]] const RuntimeValue& value(const RunState& state, ValueId id) const;
  /// Memory for a value, of at least `alignment_bytes` where that is the caller's.
  [[nodiscard]] Result<Tensor> make_tensor(RunState& state, ValueId id, DataType type,
                                           const Dims& dims, std::uintptr_t alignment_bytes) const;
  [[nodiscard]] Status run_kernel(const Step& step, RunState& state,
                                  const RunControl& control) const;
  [[nodiscard]] Status run_partition(std::size_t index, RunState& state,
                                     const RunControl& control) const;
  [[nodiscard]] Status run_step(std::size_t index, RunState& state,
                                const RunControl& control) const;
  /// Whether the value is in the keeper's memory and not in `state`.
  [[nodiscard]] bool is_kept(const RunState& state, ValueId id) const {
    return !is_body_ && state.keeper != nullptr && state.keeper->keeps(id);
  }
  [[nodiscard]] Status check_outputs(const Step& step, RunState& state) const;
  void show_outputs(const Step& step, RunState& state, const ValueObserver& observer) const;
  [[nodiscard]] Status run_steps(RunState& state, const RunControl& control) const;
  /// A run as the body of a node of another graph: captured values are bound already, and stay.
  [[nodiscard]] Result<cpu::ScratchVector<RuntimeValue>> run_body(RunState& state,
                                                                  std::span<RuntimeValue> arguments,
                                                                  const RunControl& control) const;
  template <class Values>
  [[nodiscard]] Status collect(const RunState& state, Values& outputs) const;
  [[nodiscard]] Status move_to_memory(const RunState& state, std::size_t output,
                                      RuntimeValue& value) const;

  std::shared_ptr<const Model> model_;  // owns the graph
  const Graph* graph_ = nullptr;
  bool is_body_ = false;
  std::string name_;  // of a body: "If_0/then_branch", with those of the bodies around it before it
  std::vector<Step> steps_;
  std::vector<RuntimeValue> constants_;  // by ValueId: initializers (defaults of inputs too),
                                         // Constants, and captured ones of either kind
  std::vector<ValueId> parameters_;      // of a body: its inputs but for initializers
  std::size_t body_count_ = 0;
};

}  // namespace ctxgen
