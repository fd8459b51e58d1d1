#include "stages/prepare_model.h"

#include <algorithm>
#include <format>

#include "ctxgen/base/suggest.h"
#include "ctxgen/compiler/option_table.h"
#include "ctxgen/cpu/fold.h"
#include "ctxgen/cpu/kernel.h"
#include "ctxgen/onnx/infer.h"

#include "stages/optimize_graph.h"

namespace ctxgen {
namespace {

/// What folding may allocate for one model: constants beyond this stay nodes.
constexpr std::uint64_t kMaxFoldedBytes = std::uint64_t{8} << 30;
/// Rounds of "fold, infer again", each over all nodes. A round needs a new constant, so real models
/// end after one per layer at most (masks that are cut to a size of the layer before). What a hostile
/// model can ask for is this many visits of a node, or eight rounds.
constexpr std::size_t kMaxFoldVisits = 1'000'000;
constexpr std::size_t kMinFoldRounds = 8;

/// Names of the symbolic dimensions of inputs, in their order.
std::vector<std::string> input_dim_names(const Model& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.graph.inputs) {
    const ValueType& type = model.graph.value(id).type;
    if (!type.shape) continue;
    for (const Dim& dim : *type.shape) {
      if (!dim.is_symbol()) continue;
      const std::string& name = model.symbol_name(dim.symbol());
      if (!std::ranges::contains(names, name)) names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> input_names(const Model& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.graph.inputs)
    if (model.graph.value(id).constant() == nullptr) names.emplace_back(model.graph.value(id).name);
  return names;
}

/// --fix-dim: the symbol becomes a number in the model's own inputs.
Status fix_dims(Model& model, const CompileOptions& options) {
  for (const auto& [name, number] : options.fix_dims) {
    if (number < 0)
      return fail(ErrorCode::kInvalidArgument, "dimension \"{}\" cannot be {}", name, number);
    bool found = false;
    for (ValueId id : model.graph.inputs) {
      Value& value = model.graph.value(id);
      if (!value.type.shape) continue;
      for (Dim& dim : *value.type.shape) {
        if (!dim.is_symbol() || model.symbol_name(dim.symbol()) != name) continue;
        dim = Dim::fixed(number);
        value.type_changed = found = true;
      }
    }
    if (!found) {
      const auto names = input_dim_names(model);
      return fail(ErrorCode::kInvalidArgument,
                  "no input has a dimension \"{}\" to fix; there are: {}{}", name, list_text(names),
                  did_you_mean(name, names));
    }
  }
  return {};
}

/// After --fix-dim every type that the file states may be out of date.
void mark_types_changed(Model& model) {
  for (std::uint32_t v = 0; v < model.graph.value_count(); ++v)
    model.graph.value(ValueId{v}).type_changed = true;
}

void freeze_initializers(Model& model) {
  for (std::uint32_t v = 0; v < model.graph.value_count(); ++v)
    model.graph.value(ValueId{v}).is_overridable = false;
}

std::size_t count_overridable(const Graph& graph) {
  return static_cast<std::size_t>(
      std::ranges::count_if(graph.values(), [](const Value& v) { return v.is_overridable; }));
}

/// Those of bodies, too.
std::size_t count_nodes(const Graph& graph) {
  std::size_t count = graph.node_count();
  for (std::uint32_t n = 0; n < graph.node_count(); ++n)
    for (const Attribute& attribute : graph.node(NodeId{n}).attributes)
      for (const auto& body : attribute.graphs) count += count_nodes(*body);
  return count;
}

/// Shape inference and folding feed each other: a folded shape makes more shapes known.
Status infer_and_fold(PreparedModel& prepared, const CompileOptions& options,
                      const ProviderList& providers, const CompileTarget& target,
                      const StageFunction& stage, SpillFile* spill) {
  Model& model = prepared.model;
  CTXGEN_CHECK(stage(CompileStage::kInfer));
  CTXGEN_CHECK(infer_shapes(model));
  const auto stays_whole = [](const Graph&, const Node& node) {
    return cpu::find_op(node.domain, node.op_type, node.opset) != nullptr;
  };
  (void)CTXGEN_TRY(expand_schema_functions(model, stays_whole));  // infers again what it expands
  CTXGEN_CHECK(stage(CompileStage::kFold));
  const GraphView view(model, model.graph, target);
  const auto stays_unfolded = [&](NodeId node) {
    return std::ranges::any_of(providers.all(), [&](const auto& provider) {
      return provider->keeps_unfolded(view, node);
    });
  };
  std::uint64_t used_bytes = 0;
  const std::size_t rounds =
      std::max(kMaxFoldVisits / (count_nodes(model.graph) + 1), kMinFoldRounds);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::size_t folded = CTXGEN_TRY(cpu::fold_constants(model, kMaxFoldedBytes - used_bytes,
                                                        &used_bytes, spill, stays_unfolded));
    if (options.subgraphs)
      folded +=
          CTXGEN_TRY(cpu::fold_bodies(model, kMaxFoldedBytes - used_bytes, &used_bytes, spill));
    prepared.folded_nodes += folded;
    if (folded == 0) break;
    CTXGEN_CHECK(infer_shapes(model));
  }
  if (count_overridable(model.graph) > 0)
    (void)CTXGEN_TRY(cpu::fold_defaults(model, kMaxFoldedBytes - used_bytes, &used_bytes, spill,
                                        stays_unfolded));
  return {};
}

Status find_profile_dims(PreparedModel& prepared, const CompileOptions& options) {
  const Model& model = prepared.model;
  for (const ShapeProfile& profile : options.profiles) {
    for (const auto& [name, number] : profile.symbols) {
      bool known = false;
      for (std::uint32_t s = 0; s < model.symbol_count(); ++s)
        known = known || model.symbol_name(SymbolId{s}) == name;
      if (known) continue;
      const auto names = input_dim_names(model);
      return fail(ErrorCode::kInvalidArgument,
                  "the model has no dimension \"{}\"; its inputs have: {}{}", name,
                  list_text(names), did_you_mean(name, names));
    }
    for (const auto& [name, dims] : profile.inputs) {
      const ValueId id = model.graph.find(name);
      if (!id.valid() || !model.graph.value(id).is_input)
        return fail(ErrorCode::kInvalidArgument, "the model has no input \"{}\"; it has: {}{}",
                    name, list_text(input_names(model)), did_you_mean(name, input_names(model)));
    }
    prepared.profile_dims.push_back(
        CTXGEN_TRY(infer_dims_with(model, profile.symbols, profile.inputs)));
  }
  return {};
}

/// Bodies of nodes that are written from the source; those inside of expanded functions are not.
std::vector<std::size_t> collect_bodies(Graph& graph, std::vector<PreparedBody>& bodies) {
  std::vector<std::size_t> found;
  for (std::uint32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node(NodeId{n});
    if (node.source.empty() || node.call >= 0) continue;
    for (const Attribute& attribute : node.attributes)
      for (const auto& body : attribute.graphs) {
        if (attribute.source.empty()) continue;
        PreparedBody prepared{.graph = body.get(), .name = {}, .bodies = {}, .assignment = {}};
        prepared.name = std::format("{}/{}", node.name.empty() ? node.first_output_name : node.name,
                                    attribute.name);
        prepared.bodies = collect_bodies(*body, bodies);
        found.push_back(bodies.size());
        bodies.push_back(std::move(prepared));
      }
  }
  return found;
}

}  // namespace

Result<PreparedModel> prepare_model(ImportedModel imported, const CompileOptions& options,
                                    const ProviderList& providers, const CompileTarget& target,
                                    const StageFunction& stage, SpillFile* spill) {
  PreparedModel prepared;
  prepared.name = std::move(imported.name);
  prepared.model = std::move(imported.model);
  prepared.warnings = std::move(imported.warnings);
  prepared.foreign_bins = std::move(imported.foreign_bins);
  Model& model = prepared.model;

  CTXGEN_CHECK(stage(CompileStage::kCheck));
  CTXGEN_CHECK(check_with_onnx(model));
  CTXGEN_CHECK(fix_dims(model, options));
  if (options.freeze_initializers) freeze_initializers(model);
  if (const std::size_t count = count_overridable(model.graph); count > 0)
    prepared.warnings.push_back(std::format(
        "{} initializer{} also graph input{} and may change at run time: what is compiled from {} "
        "is also there for other values; {} bakes the values in",
        count, count == 1 ? " is" : "s are", count == 1 ? "" : "s", count == 1 ? "it" : "them",
        option_name(options, &CompileOptions::freeze_initializers)));

  CTXGEN_CHECK(infer_and_fold(prepared, options, providers, target, stage, spill));
  OptimizedGraph optimized = optimize_graph(model, options.graph_optimization);
  prepared.removed_nodes = optimized.removed_nodes;
  prepared.rewired = std::move(optimized.rewired);
  if (!options.fix_dims.empty()) mark_types_changed(model);
  CTXGEN_CHECK(find_profile_dims(prepared, options));
  CTXGEN_CHECK(stage(CompileStage::kPartition));
  prepared.assignment =
      CTXGEN_TRY(partition_graph(model, model.graph, providers.all(), {}, target));
  std::ranges::copy(prepared.assignment.warnings, std::back_inserter(prepared.warnings));
  if (options.subgraphs) prepared.main_bodies = collect_bodies(model.graph, prepared.bodies);
  for (PreparedBody& body : prepared.bodies) {
    body.assignment = CTXGEN_TRY(partition_graph(model, *body.graph, providers.all(), {}, target));
    for (const std::string& warning : body.assignment.warnings)
      prepared.warnings.push_back(std::format("{}: {}", body.name, warning));
  }
  return prepared;
}

std::vector<PreparedGraph> graphs_of(PreparedModel& prepared) {
  std::vector<PreparedGraph> graphs{{&prepared.model.graph, &prepared.assignment, true}};
  for (PreparedBody& body : prepared.bodies)
    graphs.push_back({body.graph, &body.assignment, false});
  return graphs;
}

std::vector<ProviderCompileOptions> provider_options(const PreparedModel& prepared, bool main,
                                                     const CompileOptions& options,
                                                     const ProviderList& providers) {
  std::vector<ProviderCompileOptions> all;
  for (std::size_t p = 0; p < providers.all().size(); ++p) {
    ProviderCompileOptions one;
    if (main) one.profiles = options.profiles;
    one.jobs = options.jobs > 0 ? options.jobs : options.threads;
    one.profile_dims = [&prepared](std::size_t profile, ValueId value) -> std::optional<Dims> {
      return prepared.profile_dims[profile][value.index];
    };
    const auto given = providers.options(p);
    one.provider_options.assign(given.begin(), given.end());
    one.choices = options.precision.table;
    one.certificate = options.precision.certificate;
    one.tuning = &options.tuning;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace ctxgen
