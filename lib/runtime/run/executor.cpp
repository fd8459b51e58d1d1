#include "run/executor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "run/executor_builder.h"
#include "run/kernel_run.h"

namespace ctxgen {
namespace {

Status check_stop(const RunControl& control) {
  if (control.stop != nullptr && control.stop->load(std::memory_order_relaxed))
    return fail(ErrorCode::kCancelled, "the run was stopped");
  return {};
}

/// A kernel's own time: what its bodies' nodes took has entries of its own since `first`.
void add_timing(const Node& node, double start_us, std::size_t first,
                std::vector<OpTiming>& timings) {
  const double end_us = steady_us();
  double microseconds = end_us - start_us;
  for (std::size_t i = first; i < timings.size(); ++i) microseconds -= timings[i].microseconds;
  timings.push_back({.name = node.name.empty() ? node.first_output_name : node.name,
                     .kind = node.op_type.str(),
                     .implementation = "cpu",
                     .microseconds = std::max(microseconds, 0.0),
                     .flops = 0,
                     .bytes = 0,
                     .start_us = start_us,
                     .end_us = end_us});
}

}  // namespace

/// Lets a partition write its outputs straight into the tensors that later steps read.
class GraphExecutor::PartitionOutputs final : public OutputAllocator {
 public:
  PartitionOutputs(const GraphExecutor& executor, const Step& step, RunState& state)
      : executor_(executor), step_(step), state_(state) {}

  Result<std::byte*> allocate(std::size_t output, DataType type, const Dims& dims) override {
    if (output >= step_.outputs.size() && output - step_.outputs.size() < step_.inner.size())
      return allocate_inner(output - step_.outputs.size(), type, dims);
    if (output >= step_.outputs.size())
      return fail(ErrorCode::kInternal, "output {} of {}", output, step_.outputs.size());
    const ValueId id = step_.outputs[output];
    if (!id.valid()) return nullptr;
    Tensor tensor = CTXGEN_TRY(executor_.make_tensor(state_, id, type, dims, 1));
    std::byte* data = tensor.mutable_bytes().data();
    state_.values[id.index] = std::move(tensor);
    return data;
  }

  Result<std::optional<CachePlace>> keep(std::size_t cache, const Dims& dims) override {
    if (executor_.is_body_ || state_.keeper == nullptr) return std::nullopt;
    return state_.keeper->keep(static_cast<std::size_t>(&step_ - executor_.steps_.data()), cache,
                               dims);
  }

 private:
  Result<std::byte*> allocate_inner(std::size_t index, DataType type, const Dims& dims) {
    if (state_.inner.empty()) return nullptr;
    Tensor tensor = CTXGEN_TRY(state_.pool->allocate(type, dims));
    std::byte* data = tensor.mutable_bytes().data();
    state_.inner[index] = std::move(tensor);
    return data;
  }

  const GraphExecutor& executor_;
  const Step& step_;
  RunState& state_;
};

std::size_t GraphExecutor::step_count() const {
  std::size_t count = steps_.size();
  for (const Step& step : steps_)
    for (const Body& body : step.bodies) count += body.executor->step_count();
  return count;
}

std::unique_ptr<RunState> GraphExecutor::make_state(std::shared_ptr<TensorPool> pool) const {
  auto state = std::make_unique<RunState>();
  state->values.resize(graph_->value_count());
  state->executions.resize(steps_.size());
  state->bodies.resize(body_count_);
  state->pool = std::move(pool);
  return state;
}

const RuntimeValue& GraphExecutor::value(const RunState& state, ValueId id) const {
  const RuntimeValue& value = state.values[id.index];
  return value.defined() ? value : constants_[id.index];
}

/// Memory of the model's outputs leaves with the caller, so it does not come from the pool's stock;
/// unless the caller has memory for them, or takes care of the pool (run_into).
Result<Tensor> GraphExecutor::make_tensor(RunState& state, ValueId id, DataType type,
                                          const Dims& dims, std::uintptr_t alignment_bytes) const {
  if (is_body_ || !graph_->value(id).is_output) return state.pool->allocate(type, dims);
  if (state.output_memory.empty()) return state.pool->allocate_lasting(type, dims);
  const auto index = std::ranges::find(graph_->outputs, id) - graph_->outputs.begin();
  const OutputMemory& memory = state.output_memory[static_cast<std::size_t>(index)];
  const auto size_bytes = checked_size_bytes(type, dims);
  if (memory.data == nullptr || type == DataType::kString || !size_bytes ||
      *size_bytes > memory.size_bytes ||  // too small: move_to_memory() says so
      reinterpret_cast<std::uintptr_t>(memory.data) % alignment_bytes != 0)
    return state.pool->allocate(type, dims);
  return Tensor::borrow(type, dims, nullptr, {memory.data, *size_bytes});
}

Status GraphExecutor::run_kernel(const Step& step, RunState& state,
                                 const RunControl& control) const {
  state.operands.clear();
  for (const ValueId id : step.inputs) {
    if (!id.valid()) {
      state.operands.push_back(nullptr);
      continue;
    }
    RuntimeValue& here = state.values[id.index];
    if (here.defined()) CTXGEN_CHECK(align_for_kernels(here));
    const RuntimeValue& operand = value(state, id);
    if (!operand.defined())
      return fail(ErrorCode::kInvalidGraph, "input \"{}\" has no value", graph_->value(id).name);
    if (!operand.is_tensor() && !step.kernel->takes_values())
      return fail(ErrorCode::kInvalidGraph, "input \"{}\" is not a tensor, but {}",
                  graph_->value(id).name, describe(operand));
    state.operands.push_back(&operand);
  }
  KernelRun context(*this, step, state, control);
  return step.kernel->run(context);
}

Status GraphExecutor::run_partition(std::size_t index, RunState& state,
                                    const RunControl& control) const {
  const Step& step = steps_[index];
  state.views.clear();
  state.constant_views.clear();
  for (const ValueId id : step.inputs) {
    const RuntimeValue& operand = value(state, id);
    if (!operand.is_tensor())
      return fail(ErrorCode::kInvalidGraph, "input \"{}\" is not a tensor, but {}",
                  graph_->value(id).name, describe(operand));
    state.views.push_back(operand.tensor().view());
    state.constant_views.push_back(state.values[id.index].defined() ? 0 : 1);
  }
  state.inner.clear();
  if (control.observer != nullptr) state.inner.resize(step.inner.size());
  auto& execution = state.executions[index];
  if (!execution) execution = CTXGEN_TRY(step.executable->make_state());
  PartitionOutputs outputs(*this, step, state);
  return step.executable->run(
      *execution, state.views, outputs,
      {.timings = control.timings, .stop = control.stop, .constant_inputs = state.constant_views});
}

Status GraphExecutor::check_outputs(const Step& step, RunState& state) const {
  for (const ValueId id : step.outputs) {
    if (!id.valid()) continue;
    RuntimeValue& output = state.values[id.index];
    if (is_kept(state, id)) continue;
    if (!output.defined())
      return fail(ErrorCode::kInternal, "output \"{}\" was not written", graph_->value(id).name);
    if (output.is_tensor() && output.tensor().is_string())
      CTXGEN_CHECK(state.pool->settle(output.tensor()));
  }
  return {};
}

void GraphExecutor::show_outputs(const Step& step, RunState& state,
                                 const ValueObserver& observer) const {
  const Node& node = graph_->node(step.node);
  for (std::size_t i = 0; i < step.inner.size(); ++i)
    observer({name_, node, step.inner[i].value, state.inner[i], step.inner[i].op});
  for (RuntimeValue& value : state.inner) state.pool->release(std::move(value));
  state.inner.clear();
  for (const ValueId id : step.outputs)
    if (id.valid()) observer({name_, node, graph_->value(id).name, state.values[id.index]});
}

Status GraphExecutor::run_step(std::size_t index, RunState& state,
                               const RunControl& control) const {
  const Step& step = steps_[index];
  CTXGEN_CHECK(check_stop(control));
  if (step.kernel)
    CTXGEN_CHECK(run_kernel(step, state, control));
  else
    CTXGEN_CHECK(run_partition(index, state, control));
  CTXGEN_CHECK(check_outputs(step, state));
  if (control.observer != nullptr) show_outputs(step, state, *control.observer);
  for (const ValueId id : step.releases) state.pool->release(std::move(state.values[id.index]));
  return {};
}

Status GraphExecutor::run_steps(RunState& state, const RunControl& control) const {
  CTXGEN_CHECK(check_stop(control));  // a body without nodes may be run forever, too
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Node& node = graph_->node(steps_[i].node);
    const double start_us = control.timings != nullptr ? steady_us() : 0;
    const std::size_t first = control.timings != nullptr ? control.timings->size() : 0;
    auto status = run_step(i, state, control);
    if (!status) return std::unexpected(at_node(std::move(status).error(), node));
    if (control.timings != nullptr && steps_[i].kernel)
      add_timing(node, start_us, first, *control.timings);
  }
  return {};
}

/// Outputs that no step wrote into the caller's memory: constants, inputs that pass through, bytes
/// shared with another value, memory that was not aligned well enough.
Status GraphExecutor::move_to_memory(const RunState& state, std::size_t output,
                                     RuntimeValue& value) const {
  if (output >= state.output_memory.size() || state.output_memory[output].data == nullptr)
    return {};
  const OutputMemory& memory = state.output_memory[output];
  const std::string& name = graph_->value(graph_->outputs[output]).name;
  if (!value.is_tensor() || value.tensor().is_string())
    return fail(ErrorCode::kInvalidArgument,
                "output \"{}\" is {}: it has no bytes for the memory "
                "that is given",
                name, describe(value));
  const auto bytes = value.tensor().bytes();
  if (bytes.size() > memory.size_bytes)
    return fail(ErrorCode::kInvalidArgument, "output \"{}\" ({}) has {} bytes, its memory {}", name,
                describe(value), bytes.size(), memory.size_bytes);
  if (bytes.data() == memory.data || bytes.empty()) return {};
  std::memcpy(memory.data, bytes.data(), bytes.size());
  value = Tensor::borrow(value.tensor().type(), value.tensor().dims(), nullptr,
                         {memory.data, bytes.size()});
  return {};
}

template <class Values>
Status GraphExecutor::collect(const RunState& state, Values& outputs) const {
  outputs.clear();
  outputs.reserve(graph_->outputs.size());
  for (const ValueId id : graph_->outputs) {
    const RuntimeValue& output = value(state, id);
    if (is_kept(state, id)) {
      outputs.emplace_back();
      continue;
    }
    if (!output.defined())
      return fail(ErrorCode::kInvalidGraph, "output \"{}\" has no value", graph_->value(id).name);
    outputs.push_back(output);
    CTXGEN_CHECK(move_to_memory(state, outputs.size() - 1, outputs.back()));
  }
  return {};
}

Status GraphExecutor::run_into(RunState& state, std::span<const Binding> bindings,
                               const RunControl& control,
                               std::vector<RuntimeValue>& outputs) const {
  for (const Binding& binding : bindings) state.values[binding.id.index] = binding.value;
  Status status = run_steps(state, control);
  if (status) status = collect(state, outputs);
  for (RuntimeValue& value : state.values) state.pool->release(std::move(value));
  return status;
}

Result<std::vector<RuntimeValue>> GraphExecutor::run(RunState& state,
                                                     std::span<const Binding> bindings,
                                                     const RunControl& control) const {
  std::vector<RuntimeValue> outputs;
  const Status status = run_into(state, bindings, control, outputs);
  state.pool->end_run();
  if (!status) return std::unexpected(status.error());
  return outputs;
}

Result<cpu::ScratchVector<RuntimeValue>> GraphExecutor::run_body(RunState& state,
                                                                 std::span<RuntimeValue> arguments,
                                                                 const RunControl& control) const {
  if (arguments.size() != parameters_.size())
    return fail(ErrorCode::kInvalidGraph, "graph \"{}\" has {} inputs, {} are given", graph_->name,
                parameters_.size(), arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i)
    state.values[parameters_[i].index] = std::exchange(arguments[i], RuntimeValue());
  cpu::ScratchVector<RuntimeValue> outputs;
  Status status = run_steps(state, control);
  if (status) status = collect(state, outputs);
  for (std::uint32_t i = 0; i < state.values.size(); ++i)
    if (!graph_->value(ValueId{i}).is_outer) state.pool->release(std::move(state.values[i]));
  if (!status) return std::unexpected(std::move(status).error());
  return outputs;
}

const Node* GraphExecutor::first_cpu_node() const {
  for (const Step& step : steps_) {
    if (step.kernel) return &graph_->node(step.node);
    for (const Body& body : step.bodies)
      if (const Node* node = body.executor->first_cpu_node()) return node;
  }
  return nullptr;
}

void GraphExecutor::see_constants(const std::function<void(const RuntimeValue&)>& see) const {
  for (const RuntimeValue& constant : constants_)
    if (constant.defined()) see(constant);
  for (const Step& step : steps_)
    for (const Body& body : step.bodies) body.executor->see_constants(see);
}

/// `input` and what steps pass on as it is: exporters write a Concat of nothing but a past.
std::vector<ValueId> GraphExecutor::same_values(ValueId input) const {
  std::vector<ValueId> same{input};
  for (const Step& step : steps_) {
    const Node& node = graph_->node(step.node);
    const bool passes_on = step.kernel && node.domain.empty() && step.inputs.size() == 1 &&
                           (node.op_type == "Identity" || node.op_type == "Concat");
    if (passes_on && std::ranges::contains(same, step.inputs[0])) same.push_back(step.outputs[0]);
  }
  return same;
}

std::optional<PlacedCache> GraphExecutor::find_cache(ValueId input, ValueId output) const {
  std::optional<PlacedCache> found;
  const std::vector<ValueId> inputs = same_values(input);
  const auto is_input = [&](ValueId id) { return std::ranges::contains(inputs, id); };
  if (std::ranges::any_of(graph_->outputs, is_input) ||
      std::ranges::count(graph_->outputs, output) != 1)
    return std::nullopt;
  std::size_t readers = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Node& node = graph_->node(step.node);
    for (const ValueId id : node.captures)
      if (is_input(id) || id == output) return std::nullopt;
    const bool reads_size = node.op_type == "Shape" && node.domain.empty();
    const bool passes_on = !step.outputs.empty() && is_input(step.outputs[0]);
    if (!reads_size && !passes_on)
      readers += static_cast<std::size_t>(std::ranges::count_if(step.inputs, is_input));
    if (std::ranges::contains(step.inputs, output)) return std::nullopt;
    if (step.executable == nullptr) continue;
    const auto caches = step.executable->caches();
    for (std::size_t k = 0; k < caches.size(); ++k)
      if (is_input(step.inputs[caches[k].input]) && step.outputs[caches[k].output] == output)
        found = PlacedCache{.step = i,
                            .cache = k,
                            .axis = caches[k].axis,
                            .op = caches[k].op,
                            .of_op = static_cast<std::size_t>(
                                std::ranges::count(caches, caches[k].op, &CachePair::op))};
  }
  return readers == 1 ? found : std::nullopt;
}

PlanStatistics GraphExecutor::plan_statistics() const {
  PlanStatistics sum;
  for (const Step& step : steps_) {
    if (step.executable) sum += step.executable->plan_statistics();
    for (const Body& body : step.bodies) sum += body.executor->plan_statistics();
  }
  return sum;
}

}  // namespace ctxgen
