#include "plan/planner.h"

#include <algorithm>
#include <optional>

#include "ctxgen/base/boundary.h"
#include "ctxgen/base/usable_cores.h"
#include "ctxgen/onednn/exec.h"
#include "ctxgen/onednn/kind_traits.h"

#include "plan/dim_params.h"
#include "plan/dnnl_error.h"
#include "plan/omp_workers.h"
#include "plan/params.h"
#include "plan/shapes.h"

namespace ctxgen::onednn {
namespace {

/// Reductions over nothing have no kernel: only ops whose output is empty too, concatenations and
/// splits may read an empty tensor.
Status check_nonempty(const Program& program, std::span<const Dims> dims) {
  for (const ProgramOp& op : program.ops) {
    const bool computes = std::ranges::any_of(
        op.outputs, [&](std::uint32_t output) { return volume(dims[output]) != 0; });
    if (traits_of(op).takes_empty || !computes) continue;
    for (const Operand& operand : op.inputs)
      if (operand.kind != Operand::Kind::kNone && volume(operand_dims(program, operand, dims)) == 0)
        return fail(ErrorCode::kUnsupported, "{}: reads an empty tensor", label(op));
  }
  return {};
}

/// A plan that is not run needs neither own kernels nor descriptors of arguments, which are most of
/// its memory.
void drop_what_runs(NodeBuild& build) {
  for (Step& step : build.steps) {
    step.kernel.reset();
    for (Arg& arg : step.args) arg.md = no_descriptor();
  }
}

/// Whether a primitive for the node is over before a team of threads has started, which takes about 5 us (kernel_loops.h) where
/// all threads run, and a slice of the scheduler's where one of them does not.
bool is_small(const Program& program, const NodeGraph& graph, const Node& node) {
  constexpr std::uint64_t kLeastForTeam = std::uint64_t{64} << 10;
  std::uint64_t bytes = 0;
  const auto add = [&](const Dims& dims, DataType type) {
    if (bytes <= kLeastForTeam)
      bytes += static_cast<std::uint64_t>(volume(dims)) * bits_of(type) / 8;
  };
  const auto add_slot = [&](SlotId id) {
    if (id != kNone) add(graph.slots[id].dims, graph.slots[id].type);
  };
  std::ranges::for_each(node.inputs, add_slot);
  std::ranges::for_each(node.outputs, add_slot);
  for (const NodePostOp& stage : node.post_ops) add_slot(stage.operand);
  if (node.packed_weight != kNone)
    add(program.weights[node.packed_weight].dims, program.weights[node.packed_weight].type);
  return bytes <= kLeastForTeam;
}

/// Builds all nodes, on several threads where primitives are made: creation is mostly code
/// generation and scales with threads.
Result<std::vector<NodeBuild>> build_nodes(const BuildContext& context, int threads) {
  const std::vector<Node>& nodes = context.graph.nodes;
  std::vector<std::optional<Result<NodeBuild>>> results(nodes.size());
  const auto build = [&](std::int64_t i) {
    const bool small = is_small(context.program, context.graph, nodes[i]);
    const OmpThreads scope(small ? 1 : threads);
    // Without memory for its message guarded() throws, which would end the process in a helper.
    results[i] = at_boundary("plan", [&]() -> Result<NodeBuild> {
      auto built = guarded("plan", [&] { return build_node(context, nodes[i]); });
      if (!built) return std::unexpected(std::move(built).error());
      if (!context.create_primitives && *built) drop_what_runs(**built);
      if (*built)
        for (Step& step : (*built)->steps) step.one_thread = small;
      return std::move(*built);
    });
  };
  constexpr std::size_t kNodesPerThread = 8;  // starting a thread costs as much as a primitive
  const std::size_t useful = context.create_primitives ? nodes.size() / kNodesPerThread : 0;
  // More than there are cores would only take turns, and wait for each other's locks.
  const auto cores = static_cast<std::size_t>(available_cores());
  StartedThreads(std::min<std::int64_t>(threads, std::min(useful, cores)))
      .parallel_for(std::ssize(nodes), build);
  std::vector<NodeBuild> builds;
  builds.reserve(nodes.size());
  for (auto& result : results) builds.push_back(CTXGEN_TRY(std::move(*result)));
  return builds;
}

/// A value that lives as long as its step runs.
void place_scratch(Plan& plan, Step& step) {
  if (!step.scratch_in_arena) {
    plan.scratch_bytes = std::max(plan.scratch_bytes, step.scratch_bytes);
    plan.run_scratch_bytes =
        std::max({plan.run_scratch_bytes, step.scratch_bytes, step.run_scratch_bytes});
    return;
  }
  for (Arg& arg : step.args)
    if (arg.location.kind == Location::Kind::kScratch)
      arg.location = {Location::Kind::kBuffer, static_cast<BufferId>(plan.buffers.size()), 0};
  plan.buffers.push_back({.bytes = step.scratch_bytes});
}

void append_steps(Plan& plan, std::vector<NodeBuild> builds) {
  for (NodeBuild& build : builds) {
    const auto base = static_cast<std::uint32_t>(plan.packed.size());
    for (Step& step : build.steps) {
      for (Arg& arg : step.args)
        if (arg.location.kind == Location::Kind::kPacked) arg.location.index += base;
      place_scratch(plan, step);
      plan.steps.push_back(std::move(step));
    }
    plan.packed.insert(plan.packed.end(), build.packed.begin(), build.packed.end());
    plan.creation_ms += build.creation_ms;
    plan.primitives += build.primitives;
  }
}

Result<Plan> plan_once(const PlanRequest& request, std::span<const Dims> dims,
                       const LayoutOptions& options, References references) {
  const NodeGraph graph = CTXGEN_TRY(choose_layouts(request.program, dims, options));
  CTXGEN_CHECK(check_map_sizes(graph));
  const BuildContext context{
      .program = request.program,
      .graph = graph,
      .forms = request.forms,
      .choices = request.choices,
      .tuned = request.tuned,
      .threads = request.threads,
      .create_primitives = request.create_primitives,
      .references = references,
  };
  std::vector<NodeBuild> builds = CTXGEN_TRY(build_nodes(context, request.threads));
  Plan plan;
  plan.input_dims.assign(request.input_dims.begin(), request.input_dims.end());
  for (const std::uint32_t output : request.program.outputs)
    plan.output_dims.push_back(dims[output]);
  plan.buffers = graph.buffers;
  append_steps(plan, std::move(builds));
  CTXGEN_CHECK(assign_arena(plan));
  return plan;
}

Result<Plan> plan_plain(const PlanRequest& request, std::span<const Dims> dims) {
  CTXGEN_CHECK(check_nonempty(request.program, dims));
  // Where a kernel takes no sum, addition from a separate operand may still be possible, and where
  // it takes no strides, a copy.
  Result<Plan> plan = fail(ErrorCode::kUnsupported, "not planned");
  for (const References references : {References::kRefused, References::kAllowed}) {
    if (references == References::kAllowed && request.references == References::kRefused) break;
    for (const bool strided : {true, false})
      for (const bool sums : {true, false}) {
        plan = plan_once(request, dims, {.in_place_sums = sums, .strided_products = strided},
                         references);
        if (plan || plan.error().code != ErrorCode::kUnsupported) return plan;
      }
  }
  return plan;
}

}  // namespace

Result<Plan> make_plan(const PlanRequest& request) {
  const std::vector<Dims> dims = CTXGEN_TRY(infer_value_dims(request.program, request.input_dims));
  if (std::ranges::none_of(request.program.ops, has_dim_code)) return plan_plain(request, dims);
  const Program plain = CTXGEN_TRY(without_dim_code(request.program, dims));
  return plan_plain({.program = plain,
                     .input_dims = request.input_dims,
                     .forms = request.forms,
                     .choices = request.choices,
                     .tuned = request.tuned,
                     .threads = request.threads,
                     .create_primitives = request.create_primitives,
                     .references = request.references},
                    dims);
}

}  // namespace ctxgen::onednn
