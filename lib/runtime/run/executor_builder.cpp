#include "run/executor_builder.h"

#include <algorithm>
#include <cstdint>
#include <format>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "ctxgen/graph/folding.h"

namespace ctxgen {
namespace {

bool is_wanted(const Graph& graph, ValueId id) {
  const Value& value = graph.value(id);
  return value.is_output || !value.consumers.empty();
}

std::vector<RuntimeValue> constants_of(const Graph& graph) {
  std::vector<RuntimeValue> constants(graph.value_count());
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (value.folded)
      constants[i] = *value.folded;
    else if (value.initializer)
      constants[i] = *value.initializer;
  }
  return constants;
}

/// Whether callers may give another value than the constant that is here.
bool may_change(const Graph& graph, ValueId id) { return graph.value(id).is_input; }

/// What a body is called with. Until IR version 3 its initializers stood among the inputs as well.
std::vector<ValueId> parameters_of(const Graph& graph) {
  std::vector<ValueId> parameters;
  for (const ValueId id : graph.inputs)
    if (!graph.value(id).initializer) parameters.push_back(id);
  return parameters;
}

/// Static reference counting: each value is given up by the last step that touches it. What a body
/// captures belongs to the node around it, and stays.
template <class Step>
void plan_releases(const Graph& graph, std::vector<Step>& steps) {
  std::vector<bool> seen(graph.value_count(), false);
  for (std::size_t i = steps.size(); i-- > 0;) {
    Step& step = steps[i];
    const auto last_use = [&](ValueId id) {
      if (!id.valid() || seen[id.index]) return;
      seen[id.index] = true;
      const Value& value = graph.value(id);
      if (!value.is_output && !value.is_outer) step.releases.push_back(id);
    };
    for (const ValueId id : step.inputs) last_use(id);
    for (const ValueId id : step.outputs) last_use(id);
    for (const ValueId id : graph.node(step.node).captures) last_use(id);
  }
}

std::string body_name(std::string_view outer, const Node& node, std::string_view attribute) {
  return std::format("{}{}{}/{}", outer, outer.empty() ? "" : "/",
                     node.name.empty() ? node.first_output_name : node.name, attribute);
}

}  // namespace

std::uintptr_t alignment_of(DataType type) {
  return std::clamp<std::uintptr_t>(bits_of(type) / 8, 1, 16);
}

Status align_for_kernels(RuntimeValue& value) {
  if (!value.is_tensor() || value.tensor().is_string()) return {};
  Tensor& tensor = value.tensor();
  if (reinterpret_cast<std::uintptr_t>(tensor.bytes().data()) % alignment_of(tensor.type()) != 0)
    tensor = CTXGEN_TRY(tensor.aligned());
  return {};
}

Error at_node(Error error, const Node& node) {
  const std::string name = node.describe();
  if (error.message.starts_with(name)) return error;  // the kernel has said so
  return with_context(std::move(error), name);
}

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::build(
    std::shared_ptr<const Model> model, const Graph& graph,
    std::vector<LoadedPartition> partitions) {
  std::ranges::sort(partitions, [](const LoadedPartition& a, const LoadedPartition& b) {
    if (a.graph != b.graph) return std::less<const Graph*>()(a.graph, b.graph);
    return a.node < b.node;
  });
  return Builder(std::move(model), partitions).main(graph);
}

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::Builder::main(const Graph& graph) {
  auto executor = std::make_unique<GraphExecutor>();
  executor->model_ = model_;
  executor->graph_ = &graph;
  executor->constants_ = constants_of(graph);
  CTXGEN_CHECK(add_steps(*executor));
  return executor;
}

Result<std::unique_ptr<GraphExecutor>> GraphExecutor::Builder::body(
    const Graph& graph, std::string name, const GraphExecutor& outer,
    std::vector<Capture>& captures) {
  auto executor = std::make_unique<GraphExecutor>();
  executor->model_ = model_;
  executor->graph_ = &graph;
  executor->is_body_ = true;
  executor->name_ = std::move(name);
  executor->constants_ = constants_of(graph);
  executor->parameters_ = parameters_of(graph);
  for (std::uint32_t i = 0; i < graph.value_count(); ++i) {
    const Value& value = graph.value(ValueId{i});
    if (!value.is_outer) continue;
    const ValueId source = outer.graph_->find(value.name);  // the reader gave it the same name
    if (!source.valid())
      return fail(ErrorCode::kInternal, "captured value \"{}\" is not in the enclosing graph",
                  value.name);
    const RuntimeValue& constant = outer.constants_[source.index];
    if (constant.defined() && !may_change(*outer.graph_, source))
      executor->constants_[i] = constant;
    else
      captures.push_back({source, ValueId{i}});
  }
  CTXGEN_CHECK(add_steps(*executor));
  return executor;
}

Status GraphExecutor::Builder::add_steps(GraphExecutor& executor) {
  const Graph& graph = *executor.graph_;
  const auto key = [](const LoadedPartition& partition) { return partition.graph; };
  auto mine = std::ranges::equal_range(partitions_, &graph, std::less<const Graph*>(), key);
  auto next = mine.begin();
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const NodeId id{i};
    if (next != mine.end() && next->node == id)
      add_partition(executor, *next++);
    else
      CTXGEN_CHECK(add_node(executor, id));
  }
  // The caller reads elements of them, or kernels outside a body do.
  for (const ValueId output : graph.outputs)
    CTXGEN_CHECK(align_for_kernels(executor.constants_[output.index]));
  plan_releases(graph, executor.steps_);
  return {};
}

void GraphExecutor::Builder::add_partition(GraphExecutor& executor, LoadedPartition& partition) {
  Step step;
  step.node = partition.node;
  step.executable = std::move(partition.executable);
  step.inputs = std::move(partition.inputs);
  step.inner = std::move(partition.inner);
  for (const ValueId id : partition.outputs)
    step.outputs.push_back(id.valid() && is_wanted(*executor.graph_, id) ? id : ValueId{});
  executor.steps_.push_back(std::move(step));
}

Status GraphExecutor::Builder::add_node(GraphExecutor& executor, NodeId id) {
  const Graph& graph = *executor.graph_;
  const Node& node = graph.node(id);
  if (all_outputs_folded(graph, node)) return {};
  if (node.op_type == "Constant" && node.domain.empty() && node.output(0).valid())
    return add_constant(executor, node);
  auto kernel = cpu::make_kernel(node);
  if (!kernel) return std::unexpected(at_node(std::move(kernel).error(), node));
  Step step;
  step.node = id;
  step.kernel = std::move(*kernel);
  step.inputs = node.inputs;
  for (const ValueId output : node.outputs)
    step.outputs.push_back(output.valid() && is_wanted(graph, output) ? output : ValueId{});
  // Constants that kernels read are aligned once, here; what partitions read stays in the map.
  for (const ValueId input : step.inputs)
    if (input.valid()) CTXGEN_CHECK(align_for_kernels(executor.constants_[input.index]));
  auto status = add_bodies(executor, step);
  if (!status) return std::unexpected(at_node(std::move(status).error(), node));
  executor.steps_.push_back(std::move(step));
  return {};
}

Status GraphExecutor::Builder::add_constant(GraphExecutor& executor, const Node& node) {
  auto outputs = cpu::run_node(node, {});
  if (!outputs) return std::unexpected(at_node(std::move(outputs).error(), node));
  if (outputs->size() != 1 || !outputs->front().defined())
    return fail(ErrorCode::kInternal, "{}: gave no tensor", node.describe());
  executor.constants_[node.output(0).index] = std::move(outputs->front());
  return {};
}

Status GraphExecutor::Builder::add_bodies(GraphExecutor& executor, Step& step) {
  const Node& node = executor.graph_->node(step.node);
  for (const ValueId id : node.captures)  // once here, not in every body
    CTXGEN_CHECK(align_for_kernels(executor.constants_[id.index]));
  for (const Attribute& attribute : node.attributes)
    for (const auto& graph : attribute.graphs) {
      Body one;
      one.graph = graph.get();
      auto made = CTXGEN_TRY_AT(
          body(*graph, body_name(executor.name_, node, attribute.name), executor, one.captures),
          "{}", attribute.name);
      one.executor = std::move(made);
      one.index = executor.body_count_++;
      step.bodies.push_back(std::move(one));
    }
  return {};
}

}  // namespace ctxgen
