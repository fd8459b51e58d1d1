
#include "families.h"
#include "kernel/attributes.h"
#include "kernel/value_kernel.h"
#include "ops/values/stacked_slices.h"

// If and Loop: the bodies are run by the node's executor (KernelContext::run_body).

namespace ctxgen::cpu {
namespace {

Status check_output_count(const Node& node, std::string_view name, std::size_t found,
                          std::size_t least) {
  if (found >= least) return {};
  return fail(ErrorCode::kInvalidGraph, "{}: graph \"{}\" has {} outputs, the node needs {}",
              node.describe(), name, found, least);
}

// ---- If ----

KernelResult make_if(const Node& node) {
  const auto yes = CTXGEN_TRY(graph_attribute(node, "then_branch"));
  const auto no = CTXGEN_TRY(graph_attribute(node, "else_branch"));
  CTXGEN_CHECK(check_output_count(node, "then_branch", yes->outputs.size(), node.outputs.size()));
  CTXGEN_CHECK(check_output_count(node, "else_branch", no->outputs.size(), node.outputs.size()));
  return kernel([yes, no](KernelContext& context) -> Status {
    const Tensor* condition = CTXGEN_TRY(required(context, 0));
    const bool taken = CTXGEN_TRY(bool_of(*condition, "the condition"));
    auto outputs = CTXGEN_TRY(context.run_body(taken ? *yes : *no, {}));
    for (std::size_t i = 0; i < context.output_count(); ++i)
      context.set_value(i, std::move(outputs[i]));
    return {};
  });
}

// ---- Loop ----

struct Loop {
  std::shared_ptr<const Graph> body;
  std::size_t carried = 0, stacked = 0;
  Dims trip_dims = {}, condition_dims = {};  // all 1: what the body takes as scalars

  [[nodiscard]] Status run(KernelContext& context) const;

 private:
  [[nodiscard]] Result<bool> step(KernelContext& context, std::int64_t trip,
                                  RuntimeValue& condition, ScratchVector<RuntimeValue>& state,
                                  ScratchVector<Stack>& stacks) const;
};

Result<RuntimeValue> iteration_number(KernelContext& context, std::int64_t trip, const Dims& dims) {
  Tensor number = CTXGEN_TRY(context.make_tensor(DataType::kInt64, dims));
  number.mutable_elements<std::int64_t>()[0] = trip;
  return RuntimeValue(std::move(number));
}

Result<RuntimeValue> true_value(KernelContext& context) {
  Tensor value = CTXGEN_TRY(context.make_tensor(DataType::kBool, {}));
  value.mutable_bytes()[0] = std::byte{1};
  return RuntimeValue(std::move(value));
}

// ONNX asks for scalars. Exporters wrote bodies that take [1], and squeeze it, so a body gets the rank
// that it declares, as in ONNX Runtime.
Dims scalar_dims(const Graph& body, std::size_t parameter) {
  for (const ValueId id : body.inputs) {
    const Value& input = body.value(id);
    if (input.initializer) continue;  // until IR version 3: no parameter
    if (parameter-- == 0) return Dims(input.type.shape ? input.type.rank() : 0, 1);
  }
  return {};
}

// One iteration: state in, state out. Whether there is to be another one.
Result<bool> Loop::step(KernelContext& context, std::int64_t trip, RuntimeValue& condition,
                        ScratchVector<RuntimeValue>& state, ScratchVector<Stack>& stacks) const {
  ScratchVector<RuntimeValue> arguments;
  arguments.reserve(2 + carried);
  arguments.push_back(CTXGEN_TRY(iteration_number(context, trip, trip_dims)));
  arguments.push_back(std::move(condition));
  for (RuntimeValue& value : state) arguments.push_back(std::exchange(value, RuntimeValue()));
  auto outputs = CTXGEN_TRY(context.run_body(*body, arguments));
  condition = std::move(outputs[0]);
  for (std::size_t i = 0; i < carried; ++i) state[i] = std::move(outputs[1 + i]);
  for (std::size_t i = 0; i < stacked; ++i) {
    RuntimeValue& slice = outputs[1 + carried + i];
    const std::string what = std::format("scan output {}", i);
    CTXGEN_CHECK_AT(stacks[i].append(*CTXGEN_TRY(tensor_of(slice, what))), "{}", what);
    context.recycle(std::move(slice));
  }
  return bool_of(condition, "the condition output");
}

Status Loop::run(KernelContext& context) const {
  const Tensor* trips = optional_input(context, 0);
  const std::int64_t limit = trips == nullptr ? INT64_MAX : CTXGEN_TRY(scalar_int_of(*trips));
  const RuntimeValue* given = optional_value(context, 1);
  RuntimeValue condition = given != nullptr ? *given : CTXGEN_TRY(true_value(context));
  ScratchVector<RuntimeValue> state;
  for (std::size_t i = 0; i < carried; ++i) {
    static_cast<void>(CTXGEN_TRY(required_value(context, 2 + i)));
    state.push_back(context.take(2 + i));
  }
  ScratchVector<Stack> stacks;
  for (std::size_t i = 0; i < stacked; ++i)
    stacks.emplace_back(context, trips == nullptr ? -1 : limit);
  bool more = CTXGEN_TRY(bool_of(condition, "the condition"));
  condition = condition.tensor().with_dims(condition_dims);
  std::int64_t trip = 0;
  // The condition that the body gives counts even where the node has no condition input: that is
  // how ONNX's reference and ONNX Runtime do it, though the specification's text calls it ignored.
  for (; more && trip < limit; ++trip)
    more = CTXGEN_TRY(step(context, trip, condition, state, stacks));
  for (std::size_t i = 0; i < carried; ++i) context.set_value(i, std::move(state[i]));
  for (std::size_t i = 0; i < stacked; ++i) {
    const ValueType& type = body->value(body->outputs[1 + carried + i]).type;
    CTXGEN_CHECK(trip == 0 ? make_empty_output(context, carried + i, type, {0})
                           : stacks[i].finish(carried + i));
  }
  return {};
}

KernelResult make_loop(const Node& node) {
  Loop loop{.body = CTXGEN_TRY(graph_attribute(node, "body"))};
  loop.trip_dims = scalar_dims(*loop.body, 0);
  loop.condition_dims = scalar_dims(*loop.body, 1);
  loop.carried = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  CTXGEN_CHECK(check_output_count(node, "body", loop.body->outputs.size(), 1 + loop.carried));
  loop.stacked = loop.body->outputs.size() - 1 - loop.carried;
  if (node.outputs.size() > loop.carried + loop.stacked)
    return fail(ErrorCode::kInvalidGraph, "{}: {} outputs, its body makes {}", node.describe(),
                node.outputs.size(), loop.carried + loop.stacked);
  return value_kernel([loop](KernelContext& context) { return loop.run(context); });
}

constexpr OpRow kControlFlowRows[] = {
    {kOnnx, "If", 1, 25, make_if, "all types; outputs of any kind"},
    {kOnnx, "Loop", 1, 25, make_loop, "all types; carried values of any kind"},
};

}  // namespace

constinit const std::span<const OpRow> kControlFlowOps = kControlFlowRows;

}  // namespace ctxgen::cpu
