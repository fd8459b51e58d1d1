#include "executor.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ctxgen {
namespace {

/// Kernels read elements in place, so their operands must be aligned for their type. Memory of ours
/// is; mapped files and the caller's memory may not be.
Result<Tensor> aligned_for_kernels(const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_string()) return tensor;
  const std::uintptr_t natural = std::clamp<std::uintptr_t>(bits_of(tensor.type()) / 8, 1, 16);
  if (reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % natural == 0) return tensor;
  return tensor.aligned();
}

/// Where a tensor goes that a step makes: graph outputs leave with the caller, so they do not come
/// from the pool.
Result<Tensor> allocate(TensorPool& pool, const Value& value, DataType type, const Dims& dims) {
  return value.is_output ? Tensor::allocate(type, dims) : pool.allocate(type, dims);
}

Error at_node(Error error, const Node& node) {
  const std::string name = node.describe();
  if (error.message.starts_with(name)) return error;  // the kernel has said so
  return with_context(std::move(error), name);
}

class Stopwatch {
 public:
  [[nodiscard]] double microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

/// What a kernel sees of the state.
class GraphExecutor::KernelRun final : public cpu::KernelContext {
 public:
  KernelRun(const GraphExecutor& executor, const Step& step, RunState& state)
      : executor_(executor), step_(step), state_(state) {}

  std::size_t input_count() const override { return step_.inputs.size(); }
  const Tensor* input(std::size_t index) const override {
    return index < state_.operands.size() ? state_.operands[index] : nullptr;
  }
  std::size_t output_count() const override { return step_.outputs.size(); }
  bool output_wanted(std::size_t index) const override {
    return index < step_.outputs.size() && step_.outputs[index].valid();
  }
  Result<Tensor*> make_output(std::size_t index, DataType type, const Dims& dims) override {
    if (!output_wanted(index)) {  // a kernel that computes it all the same
      unwanted_.push_back(
          std::make_unique<Tensor>(CTXGEN_TRY(state_.pool.allocate(type, dims))));
      return unwanted_.back().get();
    }
    const ValueId id = step_.outputs[index];
    Tensor& place = state_.values[id.index];
    place = CTXGEN_TRY(allocate(state_.pool, executor_.graph_->value(id), type, dims));
    return &place;
  }
  void set_output(std::size_t index, Tensor tensor) override {
    if (output_wanted(index)) state_.values[step_.outputs[index].index] = std::move(tensor);
  }

 private:
  const GraphExecutor& executor_;
  const Step& step_;
  RunState& state_;
  std::vector<std::unique_ptr<Tensor>> unwanted_;
};

/// Lets a partition write its outputs straight into the tensors that later steps read.
class GraphExecutor::PartitionOutputs final : public OutputAllocator {
 public:
  PartitionOutputs(const GraphExecutor& executor, const Step& step, RunState& state)
      : executor_(executor), step_(step), state_(state) {}

  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    if (output >= step_.outputs.size())
      return fail(ErrorCode::kInternal, "output {} of {}", output, step_.outputs.size());
    const ValueId id = step_.outputs[output];
    if (!id.valid()) return nullptr;
    Tensor& place = state_.values[id.index];
    place = CTXGEN_TRY(ctxgen::allocate(state_.pool, executor_.graph_->value(id), type, dims));
    return place.mutable_bytes().data();
  }

 private:
  const GraphExecutor& executor_;
  const Step& step_;
  RunState& state_;
};

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::build(
    std::shared_ptr<const Model> model, const Graph& graph,
    std::vector<LoadedPartition> partitions) {
  auto executor = std::make_unique<GraphExecutor>();
  executor->model_ = std::move(model);
  executor->graph_ = &graph;
  executor->constants_.resize(graph.value_count());
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.folded)
      executor->constants_[i] = *value.folded;
    else if (value.initializer)
      executor->constants_[i] = *value.initializer;
  }
  std::ranges::sort(partitions, {}, &LoadedPartition::node);
  auto next = partitions.begin();
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const NodeId id{i};
    if (next != partitions.end() && next->node == id)
      CTXGEN_CHECK(executor->add_partition(std::move(*next++)));
    else
      CTXGEN_CHECK(executor->add_node(id));
  }
  CTXGEN_CHECK(executor->prepare_constants());
  executor->plan_releases();
  return executor;
}

Status GraphExecutor::add_partition(LoadedPartition partition) {
  Step step;
  step.node = partition.node;
  step.executable = std::move(partition.executable);
  step.inputs = std::move(partition.inputs);
  for (const ValueId id : partition.outputs)
    step.outputs.push_back(wanted(id) ? id : ValueId{});
  steps_.push_back(std::move(step));
  return {};
}

Status GraphExecutor::add_node(NodeId id) {
  const Node& node = graph_->node(id);
  const bool folded = std::ranges::all_of(node.outputs, [&](ValueId output) {
    return !output.valid() || graph_->value(output).folded.has_value();
  });
  if (folded) return {};
  for (const Attribute& attribute : node.attributes)
    if (!attribute.graphs.empty())
      return fail(ErrorCode::kUnsupported,
                  "{}: nodes with subgraphs (attribute \"{}\") are not run yet", node.describe(),
                  attribute.name);
  auto kernel = cpu::make_kernel(node);
  if (!kernel) return std::unexpected(at_node(std::move(kernel).error(), node));
  if (node.op_type == "Constant" && node.domain.empty() && node.output(0).valid()) {
    auto outputs = cpu::run_node(node, {});
    if (!outputs) return std::unexpected(at_node(std::move(outputs).error(), node));
    if (outputs->size() != 1 || !outputs->front().defined())
      return fail(ErrorCode::kInternal, "{}: gave no tensor", node.describe());
    constants_[node.output(0).index] = std::move(outputs->front());
    return {};
  }
  Step step;
  step.node = id;
  step.kernel = std::move(*kernel);
  step.inputs = node.inputs;
  for (const ValueId output : node.outputs)
    step.outputs.push_back(output.valid() && wanted(output) ? output : ValueId{});
  steps_.push_back(std::move(step));
  return {};
}

/// Constants that kernels read are aligned once, here; what partitions read stays in the map.
Status GraphExecutor::prepare_constants() {
  for (const Step& step : steps_) {
    if (!step.kernel) continue;
    for (const ValueId id : step.inputs)
      if (id.valid()) constants_[id.index] = CTXGEN_TRY(aligned_for_kernels(constants_[id.index]));
  }
  return {};
}

bool GraphExecutor::wanted(ValueId id) const {
  const Value& value = graph_->value(id);
  return value.is_output || !value.consumers.empty();
}

/// Static reference counting: each value is given up by the last step that touches it.
void GraphExecutor::plan_releases() {
  std::vector<bool> seen(graph_->value_count(), false);
  for (std::size_t i = steps_.size(); i-- > 0;) {
    Step& step = steps_[i];
    const auto last_use = [&](ValueId id) {
      if (!id.valid() || seen[id.index]) return;
      seen[id.index] = true;
      if (!graph_->value(id).is_output) step.releases.push_back(id);
    };
    for (const ValueId id : step.inputs) last_use(id);
    for (const ValueId id : step.outputs) last_use(id);
  }
}

std::unique_ptr<RunState> GraphExecutor::make_state() const {
  auto state = std::make_unique<RunState>();
  state->values.resize(graph_->value_count());
  state->executions.resize(steps_.size());
  return state;
}

const Tensor& GraphExecutor::value(const RunState& state, ValueId id) const {
  const Tensor& tensor = state.values[id.index];
  return tensor.defined() ? tensor : constants_[id.index];
}

Status GraphExecutor::run_kernel(const Step& step, RunState& state) const {
  state.operands.clear();
  for (const ValueId id : step.inputs) {
    if (!id.valid()) {
      state.operands.push_back(nullptr);
      continue;
    }
    Tensor& here = state.values[id.index];
    if (here.defined()) here = CTXGEN_TRY(aligned_for_kernels(here));
    const Tensor& tensor = value(state, id);
    if (!tensor.defined())
      return fail(ErrorCode::kInvalidGraph, "input \"{}\" has no value", graph_->value(id).name);
    state.operands.push_back(&tensor);
  }
  KernelRun context(*this, step, state);
  return step.kernel->run(context);
}

Status GraphExecutor::run_partition(std::size_t index, RunState& state,
                                    std::vector<OpTiming>* timings) const {
  const Step& step = steps_[index];
  state.views.clear();
  for (const ValueId id : step.inputs) {
    const Tensor& tensor = value(state, id);
    if (!tensor.defined())
      return fail(ErrorCode::kInvalidGraph, "input \"{}\" has no value", graph_->value(id).name);
    state.views.push_back(tensor.view());
  }
  auto& execution = state.executions[index];
  if (!execution) execution = CTXGEN_TRY(step.executable->make_state());
  PartitionOutputs outputs(*this, step, state);
  return step.executable->run(*execution, state.views, outputs, timings);
}

Status GraphExecutor::run_steps(RunState& state, std::vector<OpTiming>* timings) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Node& node = graph_->node(step.node);
    const Stopwatch watch;
    auto status = step.kernel ? run_kernel(step, state) : run_partition(i, state, timings);
    if (!status) return std::unexpected(at_node(std::move(status).error(), node));
    if (timings != nullptr && step.kernel)
      timings->push_back({.name = node.name.empty() ? node.first_output_name : node.name,
                          .kind = node.op_type,
                          .implementation = "cpu",
                          .microseconds = watch.microseconds(),
                          .flops = 0,
                          .bytes = 0});
    for (const ValueId id : step.outputs)
      if (id.valid() && !state.values[id.index].defined())
        return fail(ErrorCode::kInternal, "{}: output \"{}\" was not written", node.describe(),
                    graph_->value(id).name);
    for (const ValueId id : step.releases) state.pool.release(std::move(state.values[id.index]));
  }
  return {};
}

Result<std::vector<Tensor>> GraphExecutor::collect(RunState& state) const {
  std::vector<Tensor> outputs;
  outputs.reserve(graph_->outputs.size());
  for (const ValueId id : graph_->outputs) {
    const Tensor& tensor = value(state, id);
    if (!tensor.defined())
      return fail(ErrorCode::kInvalidGraph, "output \"{}\" has no value", graph_->value(id).name);
    outputs.push_back(tensor);
  }
  return outputs;
}

Result<std::vector<Tensor>> GraphExecutor::run(RunState& state, std::span<const Binding> bindings,
                                               std::vector<OpTiming>* timings) const {
  for (const Binding& binding : bindings) state.values[binding.value.index] = binding.tensor;
  const auto status = run_steps(state, timings);
  auto outputs = status ? collect(state)
                        : Result<std::vector<Tensor>>(std::unexpected(status.error()));
  for (Tensor& tensor : state.values) tensor = Tensor();
  state.pool.end_run();
  return outputs;
}

}  // namespace ctxgen
