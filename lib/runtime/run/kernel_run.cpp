#include "run/kernel_run.h"

#include <algorithm>
#include <format>
#include <utility>

#include "ctxgen/base/checked.h"

#include "run/executor_builder.h"

namespace ctxgen {

GraphExecutor::KernelRun::~KernelRun() {
  for (Tensor& output : unwanted_) state_.pool->release(std::move(output));
  for (const Body* body : bound_)
    for (const Capture& capture : body->captures)
      state_.bodies[body->index]->values[capture.inner.index] = RuntimeValue();
}

const RuntimeValue* GraphExecutor::KernelRun::value(std::size_t index) const {
  return index < state_.operands.size() ? state_.operands[index] : nullptr;
}

const Tensor* GraphExecutor::KernelRun::input(std::size_t index) const {
  const RuntimeValue* operand = value(index);
  return operand != nullptr && operand->is_tensor() ? &operand->tensor() : nullptr;
}

/// Kernels that move strings copy them: an output is at most as large as its count times the longest
/// string given, and that is known before memory is taken.
Status GraphExecutor::KernelRun::check_strings(const Dims& dims) const {
  const auto count = checked_element_count(dims);
  std::uint64_t longest = 0;
  for (const RuntimeValue* operand : state_.operands)
    if (operand != nullptr && operand->is_tensor() && operand->tensor().is_string())
      for (const std::string& text : operand->tensor().strings())
        longest = std::max<std::uint64_t>(longest, text.size());
  const auto bytes = checked_mul(count.value_or(UINT64_MAX), sizeof(std::string) + longest);
  return state_.pool->account()->check(bytes.value_or(UINT64_MAX));
}

Result<Tensor*> GraphExecutor::KernelRun::make_output(std::size_t index, DataType type,
                                                      const Dims& dims) {
  if (type == DataType::kString) CTXGEN_CHECK(check_strings(dims));
  if (!output_wanted(index)) {  // a kernel that computes it all the same
    return &unwanted_.emplace_back(CTXGEN_TRY(state_.pool->allocate(type, dims)));
  }
  const ValueId id = step_.outputs[index];
  RuntimeValue& place = state_.values[id.index];
  place = CTXGEN_TRY(executor_.make_tensor(state_, id, type, dims, alignment_of(type)));
  return &place.tensor();
}

void GraphExecutor::KernelRun::set_output(std::size_t index, Tensor tensor) {
  set_value(index, std::move(tensor));
}

void GraphExecutor::KernelRun::set_value(std::size_t index, RuntimeValue value) {
  if (output_wanted(index)) state_.values[step_.outputs[index].index] = std::move(value);
}

RuntimeValue GraphExecutor::KernelRun::take(std::size_t index) {
  const RuntimeValue* operand = value(index);
  if (operand == nullptr) return {};
  const ValueId id = step_.inputs[index];
  RuntimeValue& here = state_.values[id.index];
  // A value of this graph that this step reads last, once and not in a body: nothing else needs it.
  const Node& node = executor_.graph_->node(step_.node);
  const bool last = operand == &here && std::ranges::contains(step_.releases, id) &&
                    std::ranges::count(step_.inputs, id) == 1 &&
                    !std::ranges::contains(node.captures, id);
  if (!last) return *operand;
  state_.operands[index] = nullptr;
  return std::exchange(here, RuntimeValue());
}

RunState& GraphExecutor::KernelRun::bound_state(const Body& body) {
  auto& inner = state_.bodies[body.index];
  if (!inner) inner = body.executor->make_state(state_.pool);
  if (std::ranges::contains(bound_, &body)) return *inner;
  bound_.push_back(&body);
  for (const Capture& capture : body.captures)
    inner->values[capture.inner.index] = executor_.value(state_, capture.outer);
  return *inner;
}

Result<cpu::ScratchVector<RuntimeValue>> GraphExecutor::KernelRun::run_body(
    const Graph& graph, std::span<RuntimeValue> arguments) {
  const auto body = std::ranges::find(step_.bodies, &graph, &Body::graph);
  if (body == step_.bodies.end())
    return fail(ErrorCode::kInternal, "graph \"{}\" is not one of the node's", graph.name);
  RunState& inner = bound_state(*body);
  auto outputs = CTXGEN_TRY_AT(body->executor->run_body(inner, arguments, control_), "graph \"{}\"",
                               graph.name);
  return outputs;
}

}  // namespace ctxgen
