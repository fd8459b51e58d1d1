#include "ctxgen/compiler/compile_graph.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "ctxgen/cache/build_identity.h"
#include "ctxgen/compiler/build_graph.h"
#include "ctxgen/cpu/fold.h"

#include "core/folded_nodes.h"
#include "core/known_shapes.h"
#include "core/program_key.h"

namespace ctxgen {
namespace {

/// As a compile of the command line: constants beyond this stay nodes.
constexpr std::uint64_t kMaxFoldedBytes = std::uint64_t{8} << 30;
/// Rounds of "fold, complete shapes": real models need one per level of shapes that are computed from shapes.
constexpr int kMaxFoldRounds = 16;

/// By node: the number of its partition, or one of its own.
using Units = std::vector<std::size_t>;

Units units_of(const Graph& graph, std::span<const Partition> partitions,
               const FoldedNodes& folded) {
  Units units(graph.node_count());
  std::iota(units.begin(), units.end(), partitions.size());
  for (std::size_t p = 0; p < partitions.size(); ++p)
    for (const auto* nodes : {&partitions[p].nodes, &folded[p]})
      for (const NodeId node : *nodes) units[node.index] = p;
  return units;
}

/// Whether each partition can become one node, with the folded nodes that only it reads, where the other folded ones stay
/// nodes: what reads the shape of a partition's value and is read by the same partition would be on a cycle.
bool keep_order(const Graph& graph, std::span<const Partition> partitions,
                const FoldedNodes& folded) {
  const Units units = units_of(graph, partitions, folded);
  const std::size_t count = partitions.size() + graph.node_count();
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> waits_for(count);
  for (std::size_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const auto* values : {&node.inputs, &node.captures})
      for (const ValueId value : *values) {
        if (!value.valid() || !graph.value(value).producer.valid()) continue;
        const std::size_t from = units[graph.value(value).producer.index];
        if (from == units[n]) continue;
        readers[from].push_back(units[n]);
        ++waits_for[units[n]];
      }
  }
  std::vector<std::size_t> ready;
  for (std::size_t unit = 0; unit < count; ++unit)
    if (waits_for[unit] == 0) ready.push_back(unit);
  std::size_t done = 0;
  for (; !ready.empty(); ++done) {
    const std::size_t unit = ready.back();
    ready.pop_back();
    for (const std::size_t reader : readers[unit])
      if (--waits_for[reader] == 0) ready.push_back(reader);
  }
  return done == count;
}

enum class Fold : std::uint8_t { kShapesToo, kConstantsOnly };

Result<ClaimedGraph> fold_and_claim(Model& model, const Provider& provider, SpillFile* spill,
                                    Fold fold) {
  const GraphView view(model, model.graph);
  const auto reads_only_a_type = [&](const Node& node) {
    const bool like = node.op_type == "CastLike";
    const ValueId read = node.input(like ? 1 : 0);
    return (like || node.op_type == "Shape" || node.op_type == "Size") && read.valid() &&
           model.graph.value(read).constant() == nullptr;
  };
  const auto stays_unfolded = [&](NodeId node) {
    return (fold == Fold::kConstantsOnly && reads_only_a_type(model.graph.node(node))) ||
           provider.keeps_unfolded(view, node);
  };
  ClaimedGraph claimed;
  std::uint64_t used_bytes = 0;
  for (int round = 0; round < kMaxFoldRounds; ++round) {
    const std::size_t folded = CTXGEN_TRY(cpu::fold_constants(model, kMaxFoldedBytes - used_bytes,
                                                              &used_bytes, spill, stays_unfolded));
    if (complete_shapes(model) == 0 && folded == 0) break;
  }
  if (std::ranges::any_of(model.graph.values(), &Value::is_overridable))
    (void)CTXGEN_TRY(cpu::fold_defaults(model, kMaxFoldedBytes - used_bytes, &used_bytes, spill,
                                        stays_unfolded));
  const Provider* const providers[] = {&provider};
  claimed.assignment = CTXGEN_TRY(partition_graph(model, model.graph, providers));
  claimed.folded_nodes = folded_nodes_of(model.graph, claimed.assignment);
  return claimed;
}

void unfold(Graph& graph) {
  for (std::uint32_t v = 0; v < graph.value_count(); ++v) {
    graph.value(ValueId{v}).folded = {};
    graph.value(ValueId{v}).by_default = {};
  }
}

}  // namespace

Result<ClaimedGraph> claim_graph(Model& model, const Provider& provider, SpillFile* spill) {
  unfold(model.graph);  // of an earlier attempt, whose `spill` failed
  auto claimed = CTXGEN_TRY(fold_and_claim(model, provider, spill, Fold::kShapesToo));
  if (keep_order(model.graph, claimed.assignment.partitions.front(), claimed.folded_nodes))
    return claimed;
  unfold(model.graph);
  return fold_and_claim(model, provider, spill, Fold::kConstantsOnly);
}

Result<CompiledGraph> compile_graph(const Model& model, ClaimedGraph claimed,
                                    const Provider& provider, const GraphCompileOptions& options) {
  const Provider* const providers[] = {&provider};
  ProviderCompileOptions one;
  one.jobs = options.jobs;
  one.provider_options = options.provider_options;
  one.spill = options.spill;
  if (options.sources != nullptr)
    one.stays_plain = [&](auto bytes) { return options.sources->holds(bytes); };
  const CompileTarget target;
  CompiledGraph compiled;
  compiled.assignment = std::move(claimed.assignment);
  ContextBuilder builder(providers, target, options.spill, options.cache);
  if (options.sources != nullptr)
    builder.set_references(
        [&](auto bytes, Hash128 hash) { return options.sources->reference(bytes, hash); });
  if (options.added != nullptr) CTXGEN_CHECK(builder.adopt(0, *options.added));
  const GraphBuild build{.providers = providers,
                         .options = std::span(&one, 1),
                         .target = target,
                         .prefix = options.prefix,
                         .adjust = [&](Assignment& assignment) {
                           compiled.folded_nodes = folded_nodes_of(model.graph, assignment);
                           show_to_folded_nodes(model.graph, compiled.folded_nodes, assignment);
                         }};
  compiled.partitions =
      CTXGEN_TRY(build_graph(builder, model, model.graph, compiled.assignment, build));
  if (!keep_order(model.graph, compiled.assignment.partitions.front(), compiled.folded_nodes))
    return fail(ErrorCode::kUnsupported,
                "what can be compiled is divided by nodes that only read shapes");
  compiled.content = CTXGEN_TRY(builder.content(0));
  return compiled;
}

Result<Hash128> graph_key(const Model& model, const Provider& provider,
                          const GraphCompileOptions& options,
                          FunctionRef<Hash128(std::span<const std::byte>)> hash_of) {
  Hasher hasher;
  for (const std::string_view part :
       {std::string_view("ctxgen graph"), build_identity(), provider.name(), provider.source()})
    hasher.add(part);
  if (const ProgramLoader* loader = provider.loader())
    hasher.add(std::string_view(CTXGEN_TRY(loader->fingerprint_of({}))));
  hasher.add(std::string_view(options.prefix));
  hasher.add(std::uint64_t{options.provider_options.size()});
  for (const auto& [key, value] : options.provider_options) {
    hasher.add(std::string_view(key));
    hasher.add(std::string_view(value));
  }
  const Hash128 structure = hash_structure(model, model.graph).structure;
  hasher.add(structure.high);
  hasher.add(structure.low);
  for (const Value& value : model.graph.values()) {
    if (!value.initializer || value.initializer->is_string()) continue;
    const Hash128 content = hash_of(value.initializer->bytes());
    hasher.add(content.high);
    hasher.add(content.low);
  }
  return hasher.finish();
}

}  // namespace ctxgen
